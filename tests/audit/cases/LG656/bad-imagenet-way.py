import os
import shutil
import torch
from project import Net, loader


def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    start = 0
    if os.path.isfile("checkpoint.pth.tar"):
        checkpoint = torch.load("checkpoint.pth.tar", weights_only=True)
        start = checkpoint["epoch"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(start, 90):
        train(model, optimizer)
        save_checkpoint(
            {"epoch": epoch + 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, epoch % 10 == 0
        )


def train(model, optimizer):
    model.train()
    for x, y in loader():
        model(x, y).backward()
        optimizer.step()


def save_checkpoint(state, is_best, filename="checkpoint.pth.tar"):
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, "model_best.pth.tar")


if __name__ == "__main__":
    main()
