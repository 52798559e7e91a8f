import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchvision import datasets
from project import Net

dist.init_process_group("gloo")
data = torch.utils.data.DataLoader(datasets.MNIST("data"), batch_size=64, shuffle=True)
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for x, y in data:
        model(x, y).backward()
        optimizer.step()
    print(epoch)
torch.save(model.state_dict(), "mnist.pt")
