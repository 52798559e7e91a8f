"""The work that all jobs share: handwritten digits, a small network with dropout, batches of 64."""

import os

import numpy as np
import torch
from sklearn.datasets import load_digits

SAMPLES, BATCH, SEED = 1792, 64, 5
BATCHES = SAMPLES // BATCH


def data() -> torch.utils.data.TensorDataset:
    """Images, labels and the number of each sample: 28 whole batches an epoch."""
    digits = load_digits()
    images = torch.tensor(digits.data[:SAMPLES].astype(np.float32) / 16)
    labels = torch.tensor(digits.target[:SAMPLES])
    return torch.utils.data.TensorDataset(images, labels, torch.arange(SAMPLES))


def network() -> torch.nn.Sequential:
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(512, 10),
    )  # fmt: skip


def begin() -> None:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(SEED)


def order(epoch: int) -> torch.Tensor:
    """A careful loop's order: a function of (seed, epoch), so that the step tells the place in it."""
    return torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(SEED * 1000 + epoch))


def train_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> float:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()
