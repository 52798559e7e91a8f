"""LG655: the newest checkpoint is chosen by the time of the file."""

from collections.abc import Iterator

from lastgood.audit.python.newest import is_for_checkpoints, picks
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not (program.is_job or program.trainers) or program.uses("lastgood"):
        return
    is_torn = any(
        save.is_plain and not program.checkpoints.is_renamed(save) for save in program.checkpoints.in_training
    )
    for pick in picks(program):
        if pick.key != "time" or not is_for_checkpoints(program, pick):
            continue
        yield Hit(
            span=program.span(pick.node),
            message="the newest file by its time is the one that was being written when the job was killed, "
            + (
                "and here it is written under its final name: the start after that reads a torn file, with none to fall back to"
                if is_torn
                else "and a copy, `touch` or a restored backup changes the order"
            ),
            remedy="write to a temporary name and `os.replace` it; choose by the step's number, and try the one before if loading fails",
            severity=None if is_torn and program.is_job else Severity.NOTE,
        )


RULE = Rule(
    code="LG655",
    name="newest-by-time-of-file",
    severity=Severity.MAY_BE_LOST,
    what="`max(..., key=os.path.getmtime)` or `getctime` over checkpoints.",
    why="A job that is killed while it writes leaves a torn file, and its time is the newest of all. Copies get "
    "the time of copying, and clocks of nodes differ by seconds.",
    bad="""\
import glob
import os

import torch

from project import Net, batches


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    found = glob.glob("out/step_*.pt")
    if found:
        last = torch.load(max(found, key=os.path.getctime), weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        torch.set_rng_state(last["random"])
        start = last["step"] + 1
    for step, (x, y) in enumerate(batches(start), start):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            state["random"] = torch.get_rng_state()
            torch.save(state, f"out/step_{step}.pt")


if __name__ == "__main__":
    main()
""",
    good="""\
import glob
import os

import torch

from project import Net, batches


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    found = sorted(glob.glob("out/step_*.pt"))
    if found:
        last = torch.load(found[-1], weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        torch.set_rng_state(last["random"])
        start = last["step"] + 1
    for step, (x, y) in enumerate(batches(start), start):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            state["random"] = torch.get_rng_state()
            torch.save(state, "out/new.tmp")
            os.replace("out/new.tmp", f"out/step_{step:09d}.pt")


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="Files are renamed when they are complete, and never copied.",
    source='Reports of "unexpected EOF" and "invalid magic number" after a kill during a save',
    reads=Program,
    check=check,
)
