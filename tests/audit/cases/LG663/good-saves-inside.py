import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from project import Net, batches, save

dist.init_process_group("nccl")
model = DistributedDataParallel(Net())
optimizer = torch.optim.Adam(model.parameters())
for step, (x, y) in enumerate(batches()):
    model(x, y).backward()
    optimizer.step()
    if step % 1000 == 0:
        save(model, optimizer, step)
torch.save(model.state_dict(), "model.pt")
