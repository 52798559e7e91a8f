import torch
from accelerate import Accelerator
from project import Net, loader

accelerator = Accelerator()
model, optimizer, data = accelerator.prepare(Net(), torch.optim.Adam(Net().parameters()), loader())
for step, (x, y) in enumerate(data):
    accelerator.backward(model(x, y))
    optimizer.step()
    if step % 100 == 0:
        accelerator.save_state("state")
        torch.save(model.state_dict(), "weights.pt")
