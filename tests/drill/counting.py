"""A program that uses lastgood, quick to start: `python counting.py [STEPS] [STEP-SECONDS] [SLOW-STEPS]`; it saves every tenth
step, and does not end before the drill has struck it as planned. In its last SLOW-STEPS steps it takes longer until then, for
a step as for a save: for faults that only strike during one."""

import sys
import time

import numpy as np
import waiting

import lastgood

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
step_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
slow_steps = int(sys.argv[3]) if len(sys.argv) > 3 else 0


def is_slow() -> bool:
    return step > steps - slow_steps and not waiting.have_struck()


def take_time_to_save() -> dict[str, int]:
    if is_slow():
        time.sleep(1)
    return {}


step = 0
values = np.zeros(1000)
run = lastgood.Run({"values": values, "time": (take_time_to_save, lambda _: None)}, job="job", every=10)
for step in run.steps(steps):
    time.sleep(0.2 if is_slow() else step_s)
    if step == steps and not slow_steps:
        waiting.until_struck()
    values += step
print(values.sum())
