import os
import time
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())


def main(name):
    directory = os.path.join("runs", name)
    for epoch in range(50):
        for x, y in batches():
            model(x, y).backward()
            optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, os.path.join(directory, "last.pt"))


if __name__ == "__main__":
    main(time.strftime("%Y%m%d") + "-" + str(os.getpid()))
