"""`lastgood drill --slurm` and `--load`: the drill of a job in the queue, and pressure on this machine meanwhile."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lastgood.drill.fault import Call
    from lastgood.drill.load import LoadDone
    from lastgood.drill.spec import Spec
    from lastgood.drill.whole import Drilled, Request


def configure(parser: argparse.ArgumentParser) -> None:
    from lastgood.drill.load import ALL

    where = parser.add_argument_group("where and how it runs")
    add = where.add_argument
    add(
        "--slurm",
        action="store_true",
        help="as a job of Slurm, by `lastgood submit` (this directory is one that all nodes see): kill-rank, kill-launcher, "
        "terminate, requeue, node",
    )
    add(
        "--sbatch",
        metavar="OPTION",
        action="append",
        default=[],
        help="with --slurm: an option of sbatch, such as --sbatch=--nodes=2; may be repeated",
    )
    add(
        "--load",
        metavar="WHAT",
        nargs="?",
        const=ALL,
        help="put pressure on this machine while it runs: cpu=N,memory=SIZE,io (without a value: as much as the machine has "
        "cores, and a quarter of its free memory)",
    )


def specs_of(arguments: argparse.Namespace, call: "Call") -> "list[Spec]":
    """The faults of a drill under Slurm. Raises UsageError for what cannot be done there."""
    from lastgood.core.errors import UsageError
    from lastgood.drill.slurm import DEFAULT
    from lastgood.drill.slurm_faults import check
    from lastgood.drill.spec import parse_spec

    for name in ("random", "replay", "bill", "load", "again"):
        if getattr(arguments, name):
            raise UsageError(f"--slurm does not go with --{name}", safe="nothing was submitted")
    specs = [parse_spec(text) for text in arguments.fault] or list(DEFAULT)
    check(specs, call.hooks)
    return specs


def slurm_runner(arguments: argparse.Namespace) -> "Callable[[Request, Callable[[str], None]], Drilled]":
    from lastgood.drill.slurm import run_slurm_drill

    return lambda request, say: run_slurm_drill(request, arguments.sbatch, say)


@contextmanager
def pressure(arguments: argparse.Namespace, directory: Path) -> "Iterator[Callable[[], LoadDone | None]]":
    """Gives what tells afterwards what the load came to: None if there was none."""
    if not arguments.load:
        yield lambda: None
        return
    from lastgood.drill.load import Pressure, parse_load

    with Pressure(parse_load(arguments.load), directory) as made:
        yield lambda: made.done
