"""Two runs that are there already, held against each other: jobs, files or directories. Nothing is started."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core.errors import LastgoodError, NoSuchJobError, UsageError
from lastgood.core.fingerprint import differences
from lastgood.core.layout import JOB_FILE
from lastgood.core.manifest import Manifest
from lastgood.prove.checkpoint_state import checkpoints_by_step, compare_jobs
from lastgood.prove.comparing import FILES, STATE
from lastgood.prove.difference import Comparison, Tolerance, settled
from lastgood.prove.files import Rule
from lastgood.prove.paths import compare_paths
from lastgood.prove.series import compare_series, series_of_job, told_steps
from lastgood.prove.verdict import VALUES, Answer
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint

_MOST = 8


class TwoRuns(msgspec.Struct, frozen=True):
    answer: Answer
    reason: str
    parts: tuple[tuple[str, Comparison], ...]
    """What was compared, with what came of it."""
    notes: tuple[str, ...] = ()
    """What should be known beside it: the environments that differ, what only one has."""


def compare_two(left: Path, right: Path, tolerance: Tolerance) -> TwoRuns:
    """Whether two runs gave the same: logged values at matched steps and state of jobs of ours; the content of files and
    directories. Runs of other hyperparameters are not held to be runs of the same work.

    Raises NoSuchJobError where one is not there, UsageError where both are one.
    """
    for path in (left, right):
        if not path.exists():
            raise NoSuchJobError(f"{path} is not there", remedy="name two jobs, two files, or two directories")
    if left.samefile(right):
        raise UsageError(f"{left} and {right} are the same", remedy="name two runs")
    if not all((path / JOB_FILE).is_file() for path in (left, right)):
        found = compare_paths(left, right, Rule(tolerance))
        return _judged(((FILES, found),), (), "")
    ours, theirs = _newest(left), _newest(right)
    changed: list[str] = []
    notes = ["their configurations and environments are not compared: one has no checkpoint that can be read"]
    if ours is not None and theirs is not None:
        changed = _configs(ours, theirs)
        notes = [f"environment: {line}" for line in differences(ours.fingerprint, theirs.fingerprint)]
    series = compare_series(series_of_job(left), series_of_job(right), tolerance)
    parts = [(STATE, compare_jobs(left, right, tolerance))]
    if series.matched or series.last_left is not None or series.last_right is not None:
        parts.insert(0, (VALUES, series.comparison))
    ends = ""
    if series.last_left != series.last_right:
        ends = f"one logged until step {series.last_left}, the other until step {series.last_right}"
    for who, steps in (("first", series.only_left), ("second", series.only_right)):
        if steps:
            notes.append(f"steps that only the {who} logged: {told_steps(steps)}")
    if changed:
        text = f"they are not runs of the same work, their configurations differ: {'; '.join(changed[:_MOST])}"
        return TwoRuns(Answer.UNKNOWN, text, tuple(parts), tuple(notes))
    return _judged(tuple(parts), tuple(notes), ends)


def _judged(parts: tuple[tuple[str, Comparison], ...], notes: tuple[str, ...], ends: str) -> TwoRuns:
    parts = tuple((name, settled(found, "there is nothing in either")) for name, found in parts)
    told = ", ".join(f"{found.compared:,} {name}" for name, found in parts)
    differing = [(name, found) for name, found in parts if found.kind == "differs"]
    unknown = [(name, found) for name, found in parts if found.kind == "not comparable"]
    if differing:
        name, found = differing[0]
        return TwoRuns(Answer.DIVERGED, f"{name}: {found.first_beyond or found.first}", parts, notes)
    if ends:
        return TwoRuns(Answer.DIVERGED, ends, parts, notes)
    if unknown:
        name, found = unknown[0]
        return TwoRuns(Answer.UNKNOWN, f"{name} {found}", parts, notes)
    if any(found.kind == "within" for _, found in parts):
        return TwoRuns(Answer.WITHIN, f"{told} compared: not all equal, and all within what was allowed", parts, notes)
    return TwoRuns(Answer.IDENTICAL, f"{told} equal bit for bit", parts, notes)


def page_of_two(left: str, right: str, two: TwoRuns) -> str:
    """What a terminal shows."""
    lines = [f"compared  {left}", f"with      {right}"]
    lines += [f"note      {note}" for note in two.notes]
    lines += ["", f"{two.answer.upper()}: {two.reason}"]
    for name, found in two.parts:
        lines += [f"  {name}: " + str(found).replace("\n", "\n    ")]
    return "\n".join(lines)


def _newest(path: Path) -> Manifest | None:
    with suppress(LastgoodError, OSError):
        job = open_job(path)
        names = checkpoints_by_step(job)
        return open_checkpoint(job, names[max(names)]).manifest if names else None
    return None


def _configs(ours: Manifest, theirs: Manifest) -> list[str]:
    return [
        f"{name}: {_shown(ours.config, name)} against {_shown(theirs.config, name)}"
        for name in sorted({*ours.config, *theirs.config})
        if ours.config.get(name, _ABSENT) != theirs.config.get(name, _ABSENT)
    ]


_ABSENT = object()


def _shown(config: dict[str, Any], name: str) -> str:
    return repr(config[name]) if name in config else "absent"
