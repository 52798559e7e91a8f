import os
import signal
import sys
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()
