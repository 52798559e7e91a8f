"""Data-parallel training: every rank writes its own part, arrays that are equal on all are written once.

    lastgood run --job runs/ddp -- torchrun --standalone --nproc-per-node 2 examples/torch_ddp.py

One rank's death ends the attempt; the launcher starts the next one, which resumes on all ranks.
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lastgood

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--job", default="runs/ddp")
options = parser.parse_args()

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
device = "cpu"
if torch.cuda.is_available():
    device = f"cuda:{os.environ['LOCAL_RANK']}"
    torch.cuda.set_device(device)

torch.manual_seed(1)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels))
# BatchNorm needs more than one sample per rank, and an epoch's last step can have less.
sampler = lastgood.ResumableSampler(len(data), batch_size=32, seed=1, rank=rank, world_size=world_size, drop_last=True)
loader = DataLoader(data, batch_sampler=sampler)

model = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))
model = nn.parallel.DistributedDataParallel(model.to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1000 + rank)  # dropout differs between ranks; each rank's random state is its own

run = lastgood.Run({"model": model, "optimizer": optimizer}, job=options.job, every=20)
for epoch in run.epochs(options.epochs):
    for x, y in run.batches(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
if rank == 0:
    print(f"trained {run.step} steps on {world_size} ranks")
run.close()
dist.destroy_process_group()
