"""LG657: a checkpoint of its own is loaded without asking whether there is one."""

import ast
from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_job or program.is_owned:
        return
    for load in program.loads:
        if not load.is_file or load.source is None or not program.flow.comes_before_training(load.call):
            continue
        if (
            program.flow.tests_around(load.call)
            or program.flow.loops_around(load.call)
            or _is_tried(program, load.call)
        ):
            continue
        if not program.path_parts(load.source).is_literal or not program.checkpoints.is_own(load):
            continue
        yield Hit(
            span=program.span(load.call),
            message="the program's own checkpoint is loaded whether it is there or not: the first start fails, and whoever takes the "
            "line out for it starts from zero after each failure",
            remedy="`if os.path.exists(path):` around it, with a line in the log that says which of both it was",
        )
        return


def _is_tried(program: Program, node: ast.AST) -> bool:
    function = program.syntax.function_of(node)
    callers = program.syntax.callers_of(function) if function is not None else []
    return any(isinstance(above, ast.Try) for place in (node, *callers) for above in program.syntax.above(place))


RULE = Rule(
    code="LG657",
    name="first-start-needs-checkpoint",
    severity=Severity.NOTE,
    what="A load of a fixed path that the same program saves to, above the training loop, without a condition.",
    why="A job that is requeued runs the same command each time. It has to do for the first start, where nothing "
    "is there, and for all later ones. A command that must be edited between them is not safe to requeue.",
    bad="""\
import os

import torch

from project import Net, batches


def main():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    last = torch.load("last.pt", weights_only=True)
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
    if os.path.exists("last.pt"):
        last = torch.load("last.pt", weights_only=True)
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
            torch.save(state, "last.pt.tmp")
            os.replace("last.pt.tmp", "last.pt")


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="The file is made by another program before the first start.",
    source="Reports of frameworks whose resume option fails in the first start and is therefore left out",
    reads=Program,
    check=check,
)
