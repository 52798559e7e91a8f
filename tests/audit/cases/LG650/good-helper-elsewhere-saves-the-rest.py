import os
import torch
from project import Net, batches, save_checkpoint

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

for step, (x, y) in enumerate(batches()):
    loss = model(x, y)
    loss.backward()
    optimizer.step()

    if step % 100 == 0:
        save_checkpoint(model, optimizer, step)
        torch.save(model.state_dict(), "weights.pt")
