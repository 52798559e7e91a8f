"""State that two runs have saved at the same step, held against each other piece by piece."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from lastgood.core.errors import LastgoodError
from lastgood.core.numbering import numbers_in
from lastgood.prove.checkpoint_files import Units
from lastgood.prove.checkpoint_state import checkpoints_by_step, random_apart, read_state
from lastgood.prove.files import read_results
from lastgood.prove.shown import Shown
from lastgood.prove.tally import Tally
from lastgood.prove.values import hold
from lastgood.prove.watching import stamps_below
from lastgood.runtime.state import PROGRESS
from lastgood.store.jobdir import open_job

_MOST_NAMES = 6
_MOST_DEPTH = 3


class Pieces(msgspec.Struct, frozen=True):
    """Which pieces of a saved state differ between two runs."""

    where: str
    """The checkpoint: "out/step_40.pt"."""
    differing: tuple[str, ...]
    """Each with how it differs."""
    equal: tuple[str, ...]

    def told(self) -> tuple[str, ...]:
        if not self.differing:
            return (f"{self.where}: all of it is equal in both",)
        lines = [
            f"{self.where}, saved after the resume, differs from the undisturbed run's in {_listed(self.differing)}"
        ]
        return (*lines, f"equal in it: {_listed(self.equal)}") if self.equal else tuple(lines)


def pieces_of_jobs(left: Path, right: Path, after_step: int) -> Pieces | None:
    """Of two jobs of ours, at the first step after `after_step` at which both still have a checkpoint."""
    try:
        jobs = [open_job(path) for path in (left, right)]
        there = [checkpoints_by_step(job) for job in jobs]
        common = [step for step in sorted(there[0].keys() & there[1].keys()) if step > after_step]
        if not common:
            return None
        step = common[0]
        # The global random state decides nothing by itself: see there.
        states = [random_apart(read_state(job, names[step]))[0] for job, names in zip(jobs, there, strict=True)]
        one, other = ({name: state[name] for name in state if not name.endswith(PROGRESS)} for state in states)
    except (LastgoodError, OSError):
        return None
    return _pieces(f"the checkpoint of step {step:,}", one, other)


def pieces_of_files(left: Shown, right: Shown, units: Units, after_step: int | None) -> Pieces | None:
    """Of the first checkpoint file with a higher number than `after_step` that both have, or else of any that both have."""
    names = [set(stamps_below(shown.place.work)) for shown in (left, right)]
    common = [name for name in sorted(names[0] & names[1]) if units.unit_of(name) is not None]
    for name in _first_after(common, units, after_step):
        try:
            one, other = (read_results(shown.place.work / name) for shown in (left, right))
        except LastgoodError:
            continue
        return _pieces(name, one, other)
    return None


def _first_after(names: Sequence[str], units: Units, after_step: int | None) -> list[str]:
    def number(name: str) -> int:
        return max(numbers_in(units.unit_of(name) or name)[-1:], default=0)

    later = [name for name in names if after_step is None or number(name) > after_step or not number(name)]
    return sorted(later, key=lambda name: (number(name), name))


def _pieces(where: str, left: dict[str, object], right: dict[str, object]) -> Pieces:
    one, other = _flat(left), _flat(right)
    differing, equal = [], []
    for name in dict.fromkeys([*one, *other]):
        if name not in one or name not in other:
            differing.append(f"{name} ({'only in the undisturbed run' if name in one else 'only in the resumed run'})")
            continue
        tally = Tally()
        hold(tally, name, one[name], other[name])
        found = tally.comparison()
        if found.kind == "differs":
            largest = found.largest_relative
            size = f" (relative {largest.relative:.2g})" if largest is not None and largest.relative is not None else ""
            differing.append(f"{name}{size}")
        elif found.kind == "identical":
            equal.append(name)
    return Pieces(where, tuple(differing), tuple(equal))


def _flat(tree: dict[str, object], prefix: str = "", depth: int = 0) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in tree.items():
        name = f"{prefix}.{key}".strip(".")
        if isinstance(value, dict) and value and depth < _MOST_DEPTH:
            found.update(_flat(value, name, depth + 1))
        else:
            found[name or "the whole"] = value
    return found


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more
