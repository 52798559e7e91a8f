import os
import signal
import sys
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())


def stop(number, frame):
    sys.exit(75)


signal.signal(signal.SIGTERM, stop)
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()
