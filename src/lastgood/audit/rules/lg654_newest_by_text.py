"""LG654: the newest checkpoint is chosen by comparing names as text."""

from collections.abc import Iterator

from lastgood.audit.python.newest import is_for_checkpoints, padding, picks
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not (program.is_job or program.trainers) or program.uses("lastgood"):
        return
    for pick in picks(program):
        if pick.key is not None or not is_for_checkpoints(program, pick):
            continue
        is_padded = padding(program)
        if is_padded:
            continue
        yield Hit(
            span=program.span(pick.node),
            message="names are compared as text here, where `step_900` comes behind `step_10000`: "
            + (
                "what is taken for the newest is an old checkpoint"
                if is_padded is False
                else "if the numbers in them have no leading zeros, what is taken for the newest is an old checkpoint"
            ),
            remedy='compare numbers: `max(paths, key=lambda path: int(re.findall(r"\\d+", path)[-1]))`, or write names with `:08d`',
            severity=None if is_padded is False else Severity.NOTE,
        )


RULE = Rule(
    code="LG654",
    name="newest-by-text",
    severity=Severity.MAY_BE_LOST,
    what="`sorted(...)[-1]` or `max(...)` over names of checkpoints whose numbers have no leading zeros.",
    why="As text, 900 is greater than 10000. From the step on at which the number gets one more digit, each "
    "restart takes the same old checkpoint, and the work since then is done again, each time.",
    bad="""\
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
            os.replace("out/new.tmp", f"out/step_{step}.pt")


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
    safe_to_ignore="All numbers have the same number of digits.",
    source="Reports of resumes from an older checkpoint after the padding of names changed, or at 10,000 steps",
    reads=Program,
    check=check,
)
