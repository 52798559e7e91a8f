"""Programs that train, and die when told to. They run in children of the zygote, never in the test process."""

import hashlib
import os
import random
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, TensorDataset

import lastgood

SAMPLES, BATCH = 54, 8


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Noisy(Dataset):
    """Adds noise from the global generator, as augmentation does; gives the index, to see the order."""

    def __init__(self, noise: float = 0.1) -> None:
        self.data = torch.linspace(-1, 1, SAMPLES * 4).reshape(SAMPLES, 4)
        self.noise = noise

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.data[index] + self.noise * torch.randn(4), int(index)


class Stream(IterableDataset):
    """Batches without a known number."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        for index in range(SAMPLES):
            yield torch.full((4,), index / SAMPLES) + 0.1 * torch.randn(4), index


def make_loader(kind: str, rank: int = 0, world_size: int = 1, batch: int = BATCH) -> Any:
    # Workers that live on from epoch to epoch keep random state that nobody outside can see.
    data = Noisy(0.0 if kind == "persistent" else 0.1)
    if kind == "resumable":
        sampler = lastgood.ResumableSampler(SAMPLES, batch_size=batch, seed=3, rank=rank, world_size=world_size)
        return DataLoader(data, batch_sampler=sampler)
    if kind == "shuffle":
        return DataLoader(data, batch_size=batch, shuffle=True)
    if kind == "generator":
        return DataLoader(data, batch_size=batch, shuffle=True, generator=torch.Generator().manual_seed(7))
    if kind == "distributed":
        return DataLoader(data, batch_size=batch, sampler=DistributedSampler(data, world_size, rank, seed=5))
    if kind == "workers":
        return DataLoader(data, batch_size=batch, shuffle=True, num_workers=2)
    if kind == "persistent":
        return DataLoader(data, batch_size=batch, shuffle=True, num_workers=2, persistent_workers=True)
    if kind == "stream":
        return DataLoader(Stream(), batch_size=batch)
    if kind in ("stateful", "stateful_workers"):
        from torchdata.stateful_dataloader import StatefulDataLoader

        plain = TensorDataset(data.data, torch.arange(SAMPLES))
        return StatefulDataLoader(plain, batch_size=batch, shuffle=True, num_workers=2 if "workers" in kind else 0)
    raise ValueError(kind)


def make_schedule(kind: str, optimizer: torch.optim.Optimizer, steps: int) -> Any:
    made = {
        "multistep": lambda: torch.optim.lr_scheduler.MultiStepLR(optimizer, [5, 9, 9, 14], gamma=0.5),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps),
        "lambda": lambda: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
        "onecycle": lambda: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps + 5),
        "sequential": lambda: torch.optim.lr_scheduler.SequentialLR(
            optimizer,
            [
                torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=4),
                torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
            ],
            milestones=[4],
        ),
        "plateau": lambda: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1),
        "swa": lambda: torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.01, anneal_epochs=7),
    }
    return made[kind]()


def make_optimizer(kind: str, parameters: Any) -> torch.optim.Optimizer:
    if kind == "adam":
        return torch.optim.AdamW(parameters, lr=0.01)
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=True)
    if kind == "lbfgs":
        return torch.optim.LBFGS(parameters, lr=0.1, max_iter=2, history_size=3)
    raise ValueError(kind)


class Tied(nn.Module):
    """Dropout, running statistics, and one weight used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.out = nn.Linear(4, 4)
        self.out.weight = self.into.weight
        self.drop = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(torch.tanh(self.norm(self.into(x)))))


class Average:
    """An exponential average of a model, that keeps what it loads."""

    def __init__(self, model: nn.Module) -> None:
        self.shadow = {name: value.detach().clone() for name, value in model.named_parameters()}

    def update(self, model: nn.Module) -> None:
        for name, value in model.named_parameters():
            self.shadow[name].mul_(0.9).add_(value.detach(), alpha=0.1)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self.shadow

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.shadow = state


def trace(batch: Any) -> str:
    return hashlib.sha256(repr([part.tolist() for part in batch]).encode()).hexdigest()[:16]


def train(
    job: str,
    loader: str = "shuffle",
    schedule: str = "multistep",
    optimizer: str = "adam",
    epochs: int = 3,
    every: int = 2,
    die_at: int | None = None,
    where: str = "body",
    is_tail_noisy: bool = False,
    accumulate: int = 1,
    batch: int = BATCH,
) -> None:
    """One process. Dies in the step `die_at`: in its body, before the optimizer's step; or after it."""
    seed(1)
    batches = make_loader(loader, batch=batch)
    model = Tied()
    optim = make_optimizer(optimizer, model.parameters())
    sched = make_schedule(schedule, optim, epochs * -(-SAMPLES // batch))
    average = Average(model)
    scaler = torch.amp.GradScaler("cpu")
    state = {"model": model, "optimizer": optim, "schedule": sched, "average": average, "scaler": scaler}
    run = lastgood.Run(state, job=job, every=every)
    run.values.setdefault("best", float("inf"))
    for epoch in run.epochs(epochs):
        if is_tail_noisy:
            torch.rand(3)
        total = 0.0
        for x, index in run.batches(batches):
            step = run.step + 1
            if die_at == step and where == "body":
                die()

            def closure(x: torch.Tensor = x) -> torch.Tensor:
                optim.zero_grad()
                loss = nn.functional.mse_loss(model(x), x.flip(1))
                loss.backward()
                return loss

            if optimizer == "lbfgs":
                loss = torch.as_tensor(optim.step(closure))
            else:
                loss = nn.functional.mse_loss(model(x), x.flip(1))
                scaler.scale(loss / accumulate).backward()
                if step % accumulate == 0:
                    scaler.step(optim)
                    scaler.update()
                    optim.zero_grad()
            average.update(model)
            total += float(loss.detach())
            run.values["best"] = min(run.values["best"], float(loss.detach()))
            if schedule not in ("plateau", "swa"):
                sched.step()
            run.log(loss=loss.detach(), lr=optim.param_groups[0]["lr"], batch=trace((x, index)), epoch=epoch)
            if die_at == step and where == "after":
                die()
        if is_tail_noisy:
            run.safe_point("evaluation")
            run.values["noise"] = float(torch.rand(1)) + np.random.rand()
        if schedule == "swa":
            sched.step()
        if schedule == "plateau":
            sched.step(run.values["best"])
        if die_at == -epoch:
            die()


def two_loaders(job: str, die_at: int | None = None, every: int = 3) -> None:
    """Two loaders with generators of their own, one after the other, and a third that shares one."""
    seed(1)
    first, second = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    data = TensorDataset(torch.arange(12.0))
    loaders = [DataLoader(data, batch_size=4, shuffle=True, generator=g) for g in (first, second, first)]
    x = torch.zeros(1)
    run = lastgood.Run({"x": x}, job=job, every=every)
    for _ in run.epochs(3):
        for part, loader in enumerate(loaders):
            for (batch,) in run.batches(loader):
                x.mul_(0.5).add_(batch.mean())
                run.log(part=part, batch=batch.tolist(), x=x.sum())
                if die_at == run.step + 1:
                    die()


def join() -> tuple[int, int]:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.environ["STORE"], world_size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=60))
    return rank, world_size


def ddp(
    job: str,
    epochs: int = 2,
    every: int = 3,
    loader: str = "resumable",
    die_at: int | None = None,
    dead_rank: int = 1,
    rank_limit: str = "100s",
) -> None:
    """Two ranks: BatchNorm statistics and dropout masks of their own, weights in common."""
    rank, world_size = join()
    torch.manual_seed(1)
    batches = make_loader(loader, rank, world_size)
    model = nn.parallel.DistributedDataParallel(Tied(), broadcast_buffers=False)
    optim = torch.optim.AdamW(model.parameters(), lr=0.01)
    seed(100 + rank)
    run = lastgood.Run({"model": model, "optimizer": optim}, job=job, every=every, rank_limit=rank_limit)
    for _ in run.epochs(epochs):
        for x, index in run.batches(batches):
            if die_at == run.step + 1 and rank == dead_rank:
                die()
            loss = nn.functional.mse_loss(model(x), x.flip(1))
            optim.zero_grad()
            loss.backward()
            optim.step()
            run.log(loss=loss.detach(), batch=trace((x, index)))
    run.close()
    dist.destroy_process_group()


def sum_steps(
    job: str,
    total: int = 10,
    every: int = 3,
    die_at: int | None = None,
    pause_s: float = 0.0,
    deadline_s: float | None = None,
    at_ready: int = 1,
    stay_at: int | None = None,
) -> None:
    """NumPy only: draws from three generators and keeps a few arrays. `stay_at` is the step in which it waits for its
    death, if that has not come before."""
    if deadline_s is not None:
        os.environ["LASTGOOD_DEADLINE"] = str(time.time() + deadline_s)
    seed(1)
    own = np.random.Generator(np.random.Philox(5))
    x, trail = np.zeros(1000), np.zeros((3, 4), order="F")
    run = lastgood.Run({"x": x, "trail": trail[:, ::2], "own": own}, job=job, every=every)
    for step in run.steps(total):
        x *= 0.9
        x += own.standard_normal(1000) + random.random() + np.random.rand()
        trail[step % 3, :] = step
        run.log(x=x[7], step=step, draw=random.random())
        if die_at == step:
            die()
        if step == at_ready:
            print("ready", flush=True)
        if stay_at == step:
            time.sleep(600)
        if pause_s:
            time.sleep(pause_s)
    print("done", flush=True)
