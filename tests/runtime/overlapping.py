"""Programs that save while the next step computes, with copies that come as late as they can, and some that die."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import lastgood
from lastgood.runtime import copying, overlap
from runtime.training import Average, Tied, join, seed

LIMIT_S = 180.0
WIDTH = 128
overlap.LEAST_BYTES = 4 * WIDTH * WIDTH // 2
"""A weight of this width and height is large enough to be copied late, here."""


class Big(nn.Module):
    """Running statistics, dropout, and weights that are copied late; so is the state of its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.drop(torch.tanh(self.norm(self.into(x)))))


class LastMoment:
    """Copies beside the loop begin only when somebody waits for them: after the forward and the backward pass."""

    def __init__(self) -> None:
        self._is_awaited = threading.Event()
        self._real: dict[str, Any] = {}
        self.copied_late = 0
        self.held = 0

    def __enter__(self) -> "LastMoment":
        copy, hold, join = copying._copy_beside, copying.Copy.hold_changes, copying.Copy.join
        self._real = {"copy": copy, "hold": hold, "join": join}

        def copy_last(target: int, source: int, size: int) -> None:
            assert self._is_awaited.wait(LIMIT_S)
            self.copied_late += 1
            copy(target, source, size)

        def waiting(call: Callable[..., None]) -> Callable[..., None]:
            def wait(mine: copying.Copy, *rest: Any) -> None:
                # Before the copy may begin: it may be over in the next moment.
                self.held += call is hold and not mine._is_on_host.is_open
                self._is_awaited.set()
                try:
                    call(mine, *rest)
                finally:
                    self._is_awaited.clear()

            return wait

        copying._copy_beside = copy_last
        copying.Copy.hold_changes = waiting(hold)  # type: ignore[method-assign]
        copying.Copy.join = waiting(join)  # type: ignore[method-assign]
        return self

    def __exit__(self, *rest: object) -> None:
        copying._copy_beside = self._real["copy"]
        copying.Copy.hold_changes = self._real["hold"]  # type: ignore[method-assign]
        copying.Copy.join = self._real["join"]  # type: ignore[method-assign]


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adamw, foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
    "adamw, fused": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, fused=True),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01, centered=True),
    "lbfgs": lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=2, history_size=3),
}


def train(
    job: str,
    is_overlapped: bool,
    optimizer: str = "adam",
    steps: int = 6,
    accumulate: int = 1,
    every: int = 1,
    least_bytes: int | None = None,
    big: bool = False,
    in_forward: Callable[[nn.Module, int], None] = lambda model, step: None,
    after: Callable[[lastgood.Run, int], None] = lambda run, step: None,
    **settings: Any,
) -> dict[str, Any]:
    """Saves after every step. An average is kept beside the model, which the loop changes after the step."""
    if least_bytes is not None:
        overlap.LEAST_BYTES = least_bytes
    seed(1)
    model = Big() if big else Tied()
    width = WIDTH if big else 4
    optim = OPTIMIZERS[optimizer](model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optim, 2, 0.5)
    average, scaler = Average(model), torch.amp.GradScaler("cpu")
    state = {"model": model, "nested": [{"optimizer": optim}], "schedule": schedule, "average": average}
    state |= {"scaler": scaler, "count": torch.zeros(5)}
    with lastgood.Run(
        state, job=job, every=every, overlap=is_overlapped, keep=lastgood.Keep(last=None), **settings
    ) as run:
        run.values.setdefault("loss", 0.0)
        for step in run.steps(steps):
            in_forward(model, step)

            def closure() -> torch.Tensor:
                optim.zero_grad()
                x = torch.randn(8, width)
                loss = nn.functional.mse_loss(model(x), x.flip(1))
                loss.backward()
                return loss

            if optimizer == "lbfgs":
                loss = torch.as_tensor(optim.step(closure))
            else:
                x = torch.randn(8, width)
                loss = nn.functional.mse_loss(model(x), x.flip(1))
                scaler.scale(loss / accumulate).backward()
                if step % accumulate == 0:
                    scaler.step(optim)
                    scaler.update()
                    optim.zero_grad()
            state["count"] += 1
            average.update(model)
            if step % accumulate == 0:
                schedule.step()
            run.values["loss"] = float(loss.detach())
            after(run, step)
    return state


def train_together(job: str, is_overlapped: bool, steps: int = 6) -> None:
    """Two ranks: running statistics and dropout masks of their own, weights in common."""
    rank, _ = join()
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(Big(), broadcast_buffers=False)
    optim = torch.optim.AdamW(model.parameters(), lr=0.01)
    seed(100 + rank)
    state = {"model": model, "optimizer": optim}
    with (
        LastMoment() as moment,
        lastgood.Run(
            state, job=job, every=1, overlap=is_overlapped, keep=lastgood.Keep(last=None), rank_limit="30s"
        ) as run,
    ):
        for _ in run.steps(steps):
            optim.zero_grad()
            model(torch.randn(8, WIDTH)).square().mean().backward()
            optim.step()
    print(f"copied late: {moment.copied_late}", flush=True)
    torch.distributed.destroy_process_group()


def die_while_copying(job: str, at: int, when: str) -> None:
    """Killed in the step after the save of step `at`: in the middle of the copy, or when it is over."""
    background = lastgood.runtime.background.Background
    copy, begin, give = copying._copy_beside, copying.Copy.begin, background._give_soon
    saved, copies, is_given = 0, 0, threading.Event()

    def begin_and_tell(self: copying.Copy, *rest: Any) -> None:
        nonlocal saved, copies
        saved, copies = self.order.step, 0
        begin(self, *rest)

    def copy_or_die(target: int, source: int, size: int) -> None:
        nonlocal copies
        copies += 1
        if when == "in the middle" and saved == at and copies == 2:
            copy(target, source, size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        copy(target, source, size)

    def give_and_tell(self: Any, one: copying.Copy) -> None:
        give(self, one)
        if one.order.step == at:
            is_given.set()

    def in_forward(model: nn.Module, step: int) -> None:
        if step == at + 1:
            assert is_given.wait(LIMIT_S)
            os.kill(os.getpid(), signal.SIGKILL)

    copying._copy_beside = copy_or_die
    copying.Copy.begin = begin_and_tell  # type: ignore[method-assign]
    background._give_soon = give_and_tell  # type: ignore[method-assign]
    # What is older is on storage: only the newest snapshot is at stake.
    train(job, True, steps=10, big=True, in_forward=in_forward, after=lambda run, step: settle(run))


def settle(run: lastgood.Run) -> None:
    """Wait until what was saved so far is on storage."""
    background = run._session._saver._background  # type: ignore[union-attr]
    background.wait(LIMIT_S, lambda: None)


def resume(job: str) -> None:
    train(job, True, steps=10, big=True)
