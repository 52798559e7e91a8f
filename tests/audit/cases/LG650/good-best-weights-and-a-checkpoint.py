import os
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

best = 1e9
for epoch in range(50):
    for x, y in batches():
        loss = model(x, y)
        loss.backward()
        optimizer.step()
    state = {}
    state["model"] = model.state_dict()
    state["optim"] = optimizer.state_dict()
    torch.save(state, f"{epoch:04d}.pt")
    if loss.item() < best:
        best = loss.item()
        torch.save(model.state_dict(), "best.pt")
