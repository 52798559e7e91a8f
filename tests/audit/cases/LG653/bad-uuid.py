import os
import uuid
from pathlib import Path
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

out = Path("runs") / str(uuid.uuid4())
for epoch in range(50):
    for x, y in batches():
        model(x, y).backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, out / f"epoch{epoch:03d}.pt")
