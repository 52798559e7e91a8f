"""A program that uses lastgood, quick to start: `python counting.py [STEPS] [STEP-SECONDS] [SLOW-STEPS]`; it saves every tenth
step, and does not end before the drill has struck it as planned. Its last SLOW-STEPS steps take longer until then: for faults
that only strike during a save."""

import sys
import time

import numpy as np
import waiting

import lastgood

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
step_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
slow_steps = int(sys.argv[3]) if len(sys.argv) > 3 else 0
values = np.zeros(1000)
run = lastgood.Run({"values": values}, job="job", every=10)
for step in run.steps(steps):
    time.sleep(step_s)
    if step > steps - slow_steps and not waiting.have_struck():
        time.sleep(0.2)
    if step == steps and not slow_steps:
        waiting.until_struck()
    values += step
print(values.sum())
