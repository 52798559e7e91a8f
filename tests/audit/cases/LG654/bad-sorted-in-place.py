import glob
import os
import re

import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

start = 0
found = glob.glob("out/step_*.pt")
found.sort()
if found:
    last = torch.load(found[-1], weights_only=True)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
    start = last["step"] + 1
for step, (x, y) in enumerate(batches(start), start):
    loss = model(x, y)
    loss.backward()
    optimizer.step()

    if step % 1000 == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "out/new.tmp")
        os.replace("out/new.tmp", f"out/step_{step}.pt")
