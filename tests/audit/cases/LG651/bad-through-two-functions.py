import os
import signal
import sys
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())


def save(path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".tmp")
    os.replace(path + ".tmp", path)


def leave():
    save("last.pt")
    sys.exit(75)


for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda *_: leave())
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()
