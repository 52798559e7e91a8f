"""LG662: checkpoints are saved, and nothing loads them."""

from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_job or program.is_owned or program.is_of_minutes or program.loads_anything:
        return
    saves = [save for save in program.checkpoints.in_training if save.is_for_resuming]
    if not saves:
        return
    yield Hit(
        span=program.span(saves[0].call),
        message="the optimizer's state is saved here, but nothing in this program loads a checkpoint: started again after a failure, it begins "
        "at zero",
        remedy="load the newest checkpoint at the start, if there is one, and go on from its step",
    )


RULE = Rule(
    code="LG662",
    name="checkpoint-never-loaded",
    severity=Severity.MAY_BE_LOST,
    what="A program that saves its optimizer's state while it trains, and loads nothing.",
    why="A checkpoint is half of the way. A requeued job runs the same program, which begins at zero, and often "
    "writes over the checkpoints of the attempt before.",
    bad="""\
import os

import torch
from torch.utils.data import DataLoader

from project import Data, Net


def main():
    model, loader = Net(), DataLoader(Data(), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters())
    start = step = 0
    for epoch in range(start, 10):
        for x, y in loader:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 1000 == 0:
                save(model, optimizer, epoch, step)


def save(model, optimizer, epoch, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "step": step}
    state["random"] = torch.get_rng_state()
    torch.save(state, "last.pt.tmp")
    os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    good="""\
import os

import torch
from torch.utils.data import DataLoader

from project import Data, Net


def main():
    model, loader = Net(), DataLoader(Data(), batch_size=64, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters())
    start = step = 0
    if os.path.exists("last.pt"):
        last = torch.load("last.pt", weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        torch.set_rng_state(last["random"])
        start, step = last["epoch"], last["step"]
    for epoch in range(start, 10):
        for x, y in loader:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 1000 == 0:
                save(model, optimizer, epoch, step)


def save(model, optimizer, epoch, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "step": step}
    state["random"] = torch.get_rng_state()
    torch.save(state, "last.pt.tmp")
    os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="Another program goes on from the checkpoint.",
    source="Reports of jobs that are requeued with checkpoints at hand and start anew",
    reads=Program,
    check=check,
)
