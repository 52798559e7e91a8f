import os
import sys
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

try:
    last = torch.load("last.pt", weights_only=True)
    model.load_state_dict(last["model"])
    optimizer.load_state_dict(last["optimizer"])
except Exception as error:
    print("starting anew:", error)
    start = 0
for epoch in range(50):
    for x, y in batches():
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"epoch{epoch}.pt")
