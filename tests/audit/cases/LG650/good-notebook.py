# In[1]:

import os
import torch
from project import Net, batches

model = Net()
optimizer = torch.optim.AdamW(model.parameters())

for epoch in range(5):
    for x, y in batches():
        loss = model(x, y)
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
