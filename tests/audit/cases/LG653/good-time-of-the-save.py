import os
import time
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

for epoch in range(50):
    for x, y in batches():
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"ckpt-{time.strftime('%Y%m%d%H%M%S')}.pt")
