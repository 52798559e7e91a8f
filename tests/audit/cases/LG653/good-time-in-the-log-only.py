import os
import time
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

log = open(f"log-{time.time()}.txt", "w")
for epoch in range(50):
    for x, y in batches():
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"epoch{epoch:03d}.pt")
