import torch


def train(model, optimizer, loader):
    for x, y in loader:
        model(x, y).backward()
        optimizer.step()
        torch.save(model.state_dict(), "model.pt")
