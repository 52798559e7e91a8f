"""What the checkpoints of a job that uses the library hold, and what its program has besides."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core.errors import LastgoodError
from lastgood.prove.causes import Cause
from lastgood.prove.checkpoint_state import checkpoints_by_step
from lastgood.prove.contents import OPTIMIZER, Contents
from lastgood.prove.program import Program
from lastgood.runtime.state import PROGRESS, RANDOM, is_reserved
from lastgood.store.jobdir import open_job
from lastgood.store.rank_state import rank_state
from lastgood.store.reader import open_checkpoint

_MOST_NAMES = 8


class Held(msgspec.Struct, frozen=True):
    """What the newest checkpoint holds, of rank 0."""

    step: int
    own: Contents
    """What the program has given to `Run`."""
    has_random: bool
    has_position: bool
    """Batches were read by way of `run.batches`, which keeps the place in the data."""


def held_by(job: Path) -> Held | None:
    """None if it cannot be read."""
    try:
        opened = open_job(job)
        there = checkpoints_by_step(opened)
        state = rank_state(open_checkpoint(opened, there[max(there)]), 0)
    except (LastgoodError, OSError, ValueError):
        return None
    names = [name for name in (*state.entries, *state.arrays) if not is_reserved(name)]
    position = _member(state.entries.get(PROGRESS), "position")
    return Held(
        step=max(there),
        own=Contents(f"the checkpoint of step {max(there)}", tuple(dict.fromkeys(names)), is_readable=True),
        has_random=RANDOM in state.entries,
        has_position=bool(_member(position, "epoch") or _member(position, "batch")),
    )


def causes_of(held: Held, program: Program | None, *, is_at_once: bool) -> Iterator[Cause]:
    """What no checkpoint holds and the program has. `is_at_once`: the first step after a resume is other already."""
    if program is None:
        return
    names = (f"{held.own.path} holds {', '.join(held.own.words[:_MOST_NAMES])}",)
    unsaved = {one.kind: str(one) for one in program.unsaved}
    if program.uses_optimizer and not held.own.holds(OPTIMIZER):
        told = (f"the program makes {unsaved['optimizer']}",) if "optimizer" in unsaved else ()
        remedy = "give it to Run with the rest of the state"
        yield Cause("the optimizer is not in the checkpoint", (*told, *names), remedy, 2)
    if is_at_once and not held.has_random and program.draws:
        told = (f"the program draws random numbers: {', '.join(program.draws[:3])}",)
        yield Cause("no random state in the checkpoint", told, "leave Run(random=False) out", 2)
    if is_at_once and program.shuffles and not held.has_position:
        told = (f"the data is put into a random order: {', '.join(program.shuffles[:2])}",)
        remedy = "read it with run.batches(loader), which keeps the place in it"
        yield Cause("the data begins again: its position is not in the checkpoint", told, remedy, 1)


def _member(tree: Any, name: str) -> Any:
    return tree.get(name) if isinstance(tree, dict) else None
