import os
import sys
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

last = torch.load(sys.argv[1], weights_only=True)
model.load_state_dict(last["model"])
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()

    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, sys.argv[1])
