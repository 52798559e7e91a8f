"""LG660: a save in the middle of an epoch does not say where in the data it was."""

import ast
from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.python.tree import written
from lastgood.audit.rule import Context, Hit, Rule, Severity

_WORDS = (
    *(
        b"StatefulDataLoader",
        b"skip_first_batches",
        b"islice",
        b"set_progress",
        b"start_batch",
        b"resume_batch",
        b"start_iter",
    ),
    *(
        b"batches_seen",
        b"samples_seen",
        b"consumed",
        b"skip_batch",
        b"batch_offset",
        b"resume_step",
        b"start_step",
        b"steps_in_epoch",
    ),
)


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_job or program.is_owned or program.uses("accelerate"):
        return
    if any(word in program.source.data for word in _WORDS) or not any(load.is_file for load in program.loads):
        return
    loader = _shuffling(program)
    if loader is None:
        return
    for save in program.checkpoints.in_training:
        loops = [loop for loop in program.flow.loops_around(save.call) if loop in program.flow.training_loops]
        if not save.is_for_resuming or len(loops) < 2 or not program.flow.is_over_loader(loops[0]):
            continue
        if any(
            isinstance(above, ast.For) and above is not loops[0] and program.flow.is_over_loader(above)
            for above in loops
        ):
            continue
        if not program.flow.tests_around(save.call) or program.checkpoints.is_of_the_best(save):
            continue
        yield Hit(
            span=program.span(save.call),
            message=f"this saves in the middle of an epoch, and line {loader.lineno} shuffles: a resumed run begins the epoch again in another "
            "order, sees some samples twice, and others less often",
            remedy="`torchdata`'s StatefulDataLoader with its `state_dict()` in the checkpoint, or `lastgood`'s `run.batches(loader)`",
        )
        return


def _shuffling(program: Program) -> ast.Call | None:
    for call in program.syntax.called.get("DataLoader", ()):
        if any(keyword.arg == "shuffle" and written(keyword.value) == "True" for keyword in call.keywords):
            return call
    return None


RULE = Rule(
    code="LG660",
    name="data-position-not-saved",
    severity=Severity.NOTE,
    what="A loader that shuffles, saves inside of the loop over its batches, and no position in the data.",
    why="The order of an epoch is drawn when its loop begins. A resumed run draws another one and begins at its "
    "start: what came before the save is seen again, and with frequent failures some samples are hardly ever "
    "seen.",
    bad="""\
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
    good="""\
import itertools
import os

import torch
from torch.utils.data import DataLoader

from project import Data, Net, skip


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
        for x, y in itertools.islice(loader, skip(step), None):
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
    safe_to_ignore="There are many epochs or one endless stream, and failures are rare.",
    source="PyTorch, torchdata's StatefulDataLoader; reports of data order after a resume in the middle of an epoch",
    reads=Program,
    check=check,
)
