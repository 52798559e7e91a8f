"""A program that uses lastgood, quick to start: `python counting.py [STEPS] [STEP-SECONDS]`; it saves every tenth step."""

import sys
import time

import numpy as np

import lastgood

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
step_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
values = np.zeros(1000)
run = lastgood.Run({"values": values}, job="job", every=10)
for step in run.steps(steps):
    time.sleep(step_s)
    values += step
print(values.sum())
