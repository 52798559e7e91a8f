import glob
import os
import time
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

out = f"runs/{time.strftime('%Y%m%d-%H%M%S')}"
found = sorted(glob.glob("runs/*/epoch*.pt"))
if found:
    last = torch.load(found[-1], weights_only=True)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
for epoch in range(50):
    for x, y in batches():
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{out}/epoch{epoch:03d}.pt")
