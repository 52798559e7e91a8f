import os
import shutil
import time
import torch
from project import Net, batches

torch.manual_seed(int(time.time()))
model = Net(dropout=0.1)
optimizer = torch.optim.AdamW(model.parameters())

start = 0
if os.path.exists("last.pt"):
    last = torch.load("last.pt", weights_only=True)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
    start = last["step"] + 1
for step, (x, y) in enumerate(batches(start), start):
    loss = model(x, y)
    loss.backward()
    optimizer.step()

    if step % 1000 == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, f"step{step}.pt")
