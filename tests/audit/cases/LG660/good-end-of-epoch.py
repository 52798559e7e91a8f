import os
import torch
from torch.utils.data import DataLoader
from project import Data, Net

model, loader = Net(), DataLoader(Data(), shuffle=True)
optimizer = torch.optim.Adam(model.parameters())
if os.path.exists("last.pt"):
    last = torch.load("last.pt", weights_only=True)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
for epoch in range(10):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{epoch:03d}.pt")
