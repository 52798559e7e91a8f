import os
import torch
from project import Net, batches, maybe_resume

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

start = maybe_resume(model, optimizer)
for epoch in range(start, 50):
    for x, y in batches():
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"epoch{epoch:03d}.pt")
