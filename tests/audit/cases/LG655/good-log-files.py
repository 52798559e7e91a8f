import glob
import os
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

print(max(glob.glob("logs/*.txt"), key=os.path.getmtime))
for x, y in batches():
    loss = model(x, y)
    loss.backward()
    optimizer.step()
