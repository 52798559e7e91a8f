"""LG663: a program for many GPUs saves only when it is done."""

import ast
from collections.abc import Iterator

from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity

_SPREADS = (
    "init_process_group",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "fully_shard",
    "DistributedOptimizer",
)


def check(program: Program, context: Context) -> Iterator[Hit]:
    if not program.is_job or program.is_owned or program.is_of_minutes:
        return
    if program.checkpoints.in_training or not program.saves:
        return
    if not any(program.syntax.called.get(name) for name in _SPREADS):
        return
    behind = [save for save in program.saves if save.is_weights_only and _is_behind_training(program, save.call)]
    if len(behind) != len(program.saves):
        return
    yield Hit(
        span=program.span(behind[0].call),
        message="this is the first time that anything is saved, when all is done: a failure of any of the ranks before it costs the whole run",
        remedy="save model, optimizer and position every few minutes, and load them at the start",
    )


def _is_behind_training(program: Program, call: ast.Call) -> bool:
    function = program.syntax.function_of(call)
    loops = [loop for loop in program.flow.training_loops if program.syntax.function_of(loop) is function]
    return any((loop.end_lineno or 0) < call.lineno for loop in loops)


RULE = Rule(
    code="LG663",
    name="saved-only-at-the-end",
    severity=Severity.MAY_BE_LOST,
    what="A training program for several ranks whose only save stands behind its loop.",
    why="The more nodes a job has, the more often one of them fails. Without a checkpoint each failure costs all "
    "that was done, on all of them.",
    bad="""\
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from project import Net, loader


def main():
    dist.init_process_group("nccl")
    model = DistributedDataParallel(Net().cuda())
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(100):
        for x, y in loader(epoch):
            loss = model(x, y)
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
""",
    good="""\
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from project import Net, loader


def main():
    dist.init_process_group("nccl")
    model = DistributedDataParallel(Net().cuda())
    optimizer = torch.optim.Adam(model.parameters())
    start = 0
    if os.path.exists("last.pt"):
        last = torch.load("last.pt", map_location="cpu", weights_only=True)
        model.load_state_dict(last["model"])
        optimizer.load_state_dict(last["optimizer"])
        start = last["epoch"] + 1
    for epoch in range(start, 100):
        for x, y in loader(epoch):
            loss = model(x, y)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, "last.pt.tmp")
            os.replace("last.pt.tmp", "last.pt")
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
""",
    safe_to_ignore="The training takes minutes.",
    source="Reports of failure rates that grow with the number of nodes (6.5 per 1,000 node-days on one large cluster)",
    reads=Program,
    check=check,
)
