"""A PyTorch loop with epochs and batches, a learning rate schedule and mixed precision.

    lastgood run --job runs/torch -- python examples/torch_loop.py

The lines that lastgood adds are marked with (*).
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lastgood  # (*)

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--job", default="runs/torch")
options = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels)
data = TensorDataset(images[:1500], labels[:1500])
test_x, test_y = images[1500:].to(device), labels[1500:].to(device)
loader = DataLoader(
    data,
    batch_sampler=lastgood.ResumableSampler(len(data), batch_size=32, seed=1),  # (*) continues in mid-epoch at once
)

model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs)
scaler = torch.amp.GradScaler(device, enabled=device == "cuda")

run = lastgood.Run(  # (*)
    {"model": model, "optimizer": optimizer, "schedule": schedule, "scaler": scaler},
    job=options.job,
    every=20,
)
run.values.setdefault("best", 0.0)
for epoch in run.epochs(options.epochs):  # (*)
    model.train()
    for x, y in run.batches(loader):  # (*)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"):
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        run.log(loss=loss, lr=schedule.get_last_lr()[0])  # (*)
    schedule.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
    run.values["best"] = max(run.values["best"], accuracy)
    run.log(accuracy=accuracy)
print(f"best accuracy on unseen digits in {run.step} steps: {run.values['best']:.2%}")
