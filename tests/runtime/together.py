"""Programs of several ranks, which part ways in every way there is. See runtime.zygote."""

import os
import time
from pathlib import Path
from typing import Any

import torch

import lastgood
from lastgood.core.errors import StorageError
from lastgood.store.writer import CheckpointWriter
from runtime.endings import say, wait_until_asked
from runtime.training import die, join


def refuse_to_write(self: CheckpointWriter, *rest: Any, **named: Any) -> None:
    raise StorageError("no space for this rank")


def go(
    job: str,
    how: str = "",
    total: int = 10,
    every: int | str = 3,
    rank_limit: str = "100s",
    on_save_error: Any = "warn",
) -> None:
    """Ten steps, of which the fifth is where rank 1 does something else."""
    rank, _ = join()
    torch.manual_seed(rank)
    common, own = torch.zeros(5000), torch.full((3,), float(rank))
    state: dict[str, Any] = {"common": common, "more": torch.ones(4000), "own": own}
    if how == "unstorable from the start" and rank == 1:
        state["bad"] = (lambda: print, lambda value: None)
    elif how.startswith("unstorable"):
        state["bad"] = (lambda: print if rank == 1 and run.step >= 5 else 0, lambda value: None)
    run = lastgood.Run.__new__(lastgood.Run)
    run.step = 0
    run.__init__(  # type: ignore[misc]
        state, job=job, every=every, rank_limit=rank_limit, on_save_error=on_save_error, keep=lastgood.Keep(last=None)
    )
    for step in run.steps(total):
        common += step
        own += step
        run.log(step=step)
        if how in ("long", "asked"):
            time.sleep(0.01)
        if step == 2 and how != "asked":
            say("ready")
        if step == 5 and rank == 1:
            depart(how, run, job)
        if step == 5 and rank == 0 and how == "raises while the other is slow":
            say("asleep")
            time.sleep(600)
        if step == 5 and how == "asked" and rank == 1:
            say("ready")
            wait_until_asked(run)
        if step == 5 and how == "break" and rank == 1:
            break
        if step == 5 and how == "finish" and rank == 1:
            run.finish()
            break
    say("done")


def depart(how: str, run: lastgood.Run, job: str) -> None:
    if how == "cannot write":
        CheckpointWriter.write_part = refuse_to_write  # type: ignore[assignment, method-assign]
    if how == "finds no room":
        # Something is in the way of this rank's files, whoever writes them.
        for step in (6, 9):
            Path(job, "checkpoints", f"{step:012d}-0001", "rank-00001.safetensors.part").mkdir(parents=True)
    if how == "killed":
        die()
    if how.startswith("raises"):
        raise KeyError("of rank 1")
    if how == "hangs":
        time.sleep(600)
    if how == "another safe point":
        run.safe_point("evaluation", step_is_done=True)
        run.safe_point("evaluation", step_is_done=True)


def read_data(
    job: str,
    stop_at: int | None = None,
    epochs: int = 2,
    random: bool = False,
    loader: str = "sampler",
    allow: bool = False,
) -> None:
    """Reads 40 samples in batches of 3 per rank; stops after a step, at whatever number of ranks."""
    rank, world_size = 0, int(os.environ.get("WORLD_SIZE", "1"))
    if world_size > 1:
        rank, world_size = join()
        torch.manual_seed(rank)
    if loader == "sampler":
        batches: Any = lastgood.ResumableSampler(40, batch_size=3, seed=4, rank=rank, world_size=world_size)
    else:
        batches = [torch.tensor([3 * i, 3 * i + 1]) for i in range(10)]
    run = lastgood.Run({"x": torch.zeros(1)}, job=job, every=1000, random=random, allow_world_size_change=allow)
    for epoch in run.epochs(epochs):
        for batch in run.batches(batches):
            say(f"epoch {epoch} {' '.join(map(str, batch.tolist()))}")
            if run.step + 1 == stop_at:
                run.save()
                run.safe_point("x", step_is_done=True)
                run.safe_point("x")
                os._exit(0)


def train_a_model(job: str, steps: int, allow: bool = False) -> None:
    """A model whose running statistics differ between ranks, and an entry that looks different on each."""
    rank, world_size = join() if int(os.environ.get("WORLD_SIZE", "1")) > 1 else (0, 1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    mine = [rank]
    notes = (lambda: mine * (rank + 1), mine.extend)
    if world_size == 1:
        torch.nn.init.zeros_(model[0].weight)
    run = lastgood.Run({"model": model, "notes": notes}, job=job, every=1, allow_world_size_change=allow)
    if world_size == 1:
        say(f"weight {model[0].weight.tolist()} mean {model[1].running_mean.tolist()} notes {mine}")
    for step in run.steps(steps):
        with torch.no_grad():
            model[0].weight.fill_(step)
            model[1].running_mean.fill_(step + 10 * rank)


def without_group(job: str) -> None:
    lastgood.Run({}, job=job)
