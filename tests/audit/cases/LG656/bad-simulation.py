import os
import numpy as np

step, field = 0, np.zeros((1000, 1000))
if os.path.exists("state.npz"):
    state = np.load("state.npz")
    step, field = int(state["step"]), state["field"]
while step < 1_000_000:
    field += np.roll(field, 1)
    step += 1
    if step % 1000 == 0:
        np.savez("state.npz", step=step, field=field)
