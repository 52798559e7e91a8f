"""LG659: a checkpoint that cannot be read is taken for none."""

from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.python.tries import gives_up_silently, loads_within
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_job or program.is_owned:
        return
    for block in program.syntax.tries:
        load = loads_within(program, block)
        if load is None or program.flow.loops_around(block):
            continue
        handler = gives_up_silently(program, block)
        if handler is None:
            continue
        yield Hit(
            span=program.span(handler),
            message="whatever goes wrong with loading the checkpoint is passed over, also a torn file, a full disk or a directory that is not "
            "mounted: the run goes on without it, and its next save may replace what was there",
            remedy="`except FileNotFoundError:` for the first start, and nothing else",
        )
        return


RULE = Rule(
    code="LG659",
    name="failed-load-passed-over",
    severity=Severity.MAY_BE_LOST,
    what="`try:` around the load of a checkpoint, with `except:` or `except Exception:` that goes on without it.",
    why="Days of work are thrown away without an error: the job runs, and looks well. A checkpoint that is there "
    "and cannot be read is a reason to stop, or to take the one before.",
    bad="""\
import os

import torch

from project import Net, batches


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    try:
        last = torch.load("last.pt", weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        torch.set_rng_state(last["random"])
        start = last["step"] + 1
    except Exception:
        print("no checkpoint, starting from zero")
    for step, (x, y) in enumerate(batches(start), start):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            state["random"] = torch.get_rng_state()
            torch.save(state, "last.pt.tmp")
            os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    good="""\
import os

import torch

from project import Net, batches


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    try:
        last = torch.load("last.pt", weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        torch.set_rng_state(last["random"])
        start = last["step"] + 1
    except FileNotFoundError:
        print("no checkpoint, starting from zero")
    for step, (x, y) in enumerate(batches(start), start):
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            state["random"] = torch.get_rng_state()
            torch.save(state, "last.pt.tmp")
            os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="What is loaded is a help, such as pretrained weights, and no state of the run.",
    source="Reports of silent restarts from zero: mistyped paths, unmounted directories, a storage error read as an "
    "empty list",
    reads=Program,
    check=check,
)
