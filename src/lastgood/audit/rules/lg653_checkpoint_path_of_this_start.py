"""LG653: each start saves to another place."""

from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_job or program.is_owned:
        return
    checkpoints = program.checkpoints
    looks_for_it = any(
        call
        for name in ("glob", "iglob", "rglob", "listdir", "scandir", "iterdir")
        for call in program.syntax.called.get(name, ())
    )
    for save in checkpoints.in_training:
        if save.target is None or looks_for_it or not (save.is_for_resuming or save.is_weights_only):
            continue
        # One that is asked for in the loop is another name for each save, not another place for each start.
        times = [time for time in program.path_parts(save.target).times if not program.flow.is_in_training(time)]
        if not times or checkpoints.is_renamed(save):
            continue
        by_hand = any(load.is_file for load in program.loads)
        if not (by_hand or save.is_for_resuming):
            # Without anything to resume with, another rule says so.
            continue
        yield Hit(
            span=program.span(save.call),
            message=f"the path has `{program.syntax.text(times[0])}` in it: each start saves to another place, and one after a "
            "failure does not find what the attempt before saved"
            + (" unless somebody tells it the path" if by_hand else ""),
            remedy="a path that is the same in each attempt, such as an argument `--out`, or `$SLURM_ARRAY_JOB_ID` of a chained array",
            severity=Severity.NOTE if by_hand else None,
        )
        return


RULE = Rule(
    code="LG653",
    name="checkpoint-path-of-this-start",
    severity=Severity.MAY_BE_LOST,
    what="Checkpoints under a path that is built from the time, a process id or a random name at the start of the "
    "program.",
    why="A requeued job runs the same command. It must find the directory of the attempt before, and a name with "
    "the time of the start in it is a new one.",
    bad="""\
import os
from datetime import datetime

import torch
from torch.utils.data import DataLoader

from project import Data, Net


def main():
    torch.manual_seed(1)
    model, data = Net(), DataLoader(Data(), batch_size=64)
    optimizer = torch.optim.Adam(model.parameters())
    out = f"runs/{datetime.now():%Y%m%d-%H%M%S}"
    os.makedirs(out)
    for epoch in range(100):
        for x, y in data:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, os.path.join(out, f"{epoch:04d}.pt"))


if __name__ == "__main__":
    main()
""",
    good="""\
import os

import torch
from torch.utils.data import DataLoader

from project import Data, Net


def main():
    torch.manual_seed(1)
    model, data = Net(), DataLoader(Data(), batch_size=64)
    optimizer = torch.optim.Adam(model.parameters())
    out, start = os.environ["RUN_DIR"], 0
    os.makedirs(out, exist_ok=True)
    for name in sorted(os.listdir(out), reverse=True):
        if name.endswith(".pt"):
            last = torch.load(os.path.join(out, name), weights_only=True)
            model.load_state_dict(last["model"])
            optimizer.load_state_dict(last["optimizer"])
            start = last["epoch"] + 1
            break
    for epoch in range(start, 100):
        for x, y in data:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, os.path.join(out, "new.tmp"))
        os.replace(os.path.join(out, "new.tmp"), os.path.join(out, f"{epoch:04d}.pt"))


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="The start after a failure is told the path by hand or by a script.",
    source="Reports of requeued jobs that begin at zero in a new directory",
    reads=Program,
    check=check,
)
