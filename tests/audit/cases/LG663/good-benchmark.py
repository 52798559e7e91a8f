import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from project import Net, batches

dist.init_process_group("nccl")
model = DistributedDataParallel(Net())
optimizer = torch.optim.Adam(model.parameters())
for x, y in batches():
    model(x, y).backward()
    optimizer.step()
print(torch.cuda.max_memory_allocated())
