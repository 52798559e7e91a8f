"""Two runs of a proof held against each other: logged values, final files, state."""

import fnmatch
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lastgood.apps.results import results_of
from lastgood.core.errors import LastgoodError
from lastgood.core.numbering import is_temporary
from lastgood.prove.app_results import compare_results, in_all
from lastgood.prove.checkpoint_files import Units
from lastgood.prove.checkpoint_state import RANDOM_DIFFERS, compare_digests, compare_jobs
from lastgood.prove.checkpoint_state import as_comparison as digests_as_comparison
from lastgood.prove.difference import Comparison, Difference, Tolerance, differs, join, not_comparable
from lastgood.prove.files import Rule, compare_files
from lastgood.prove.json_leaves import Path as Leaf
from lastgood.prove.json_leaves import differing_leaves, told_leaves, without_leaves
from lastgood.prove.last_output import compare_last_output, compare_last_values, last_values
from lastgood.prove.output_lines import attempts_of, merged, series_of_attempts
from lastgood.prove.profiling import Known
from lastgood.prove.series import Series, attempts_of_job, compare_redone, compare_series, series_of_job
from lastgood.prove.shown import Shown, told_names
from lastgood.prove.statistics import as_comparison, compare_statistically
from lastgood.prove.tally import Tally
from lastgood.prove.values import hold
from lastgood.prove.verdict import LAST_VALUES, VALUES, Part
from lastgood.prove.watching import stamps_below
from lastgood.trial.target import RUN

FILES, STATE = "values in final files", "values of saved state"
RESULTS = "values in the application's results"
DIGESTS = "saved states by their digests"
OUTPUT = "lines in the end of its output"
ESTIMATES = "estimates with errors"
_ARRAYS = (".npy", ".npz", ".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".h5", ".hdf5", ".pkl")
"""Files of numbers: where two undisturbed runs differ in one, the job is not deterministic. A text may hold a date."""
_MAX_JSON_BYTES = 2**24
"""A larger one is compared as a whole, or not at all."""


class Wanted(msgspec.Struct, frozen=True):
    """What is to be compared, and how."""

    known: Known
    tolerance: Tolerance
    files: tuple[str, ...] = ()
    """Globs of final files; none: those that two undisturbed runs have written equal."""
    statistical: tuple[tuple[str, str], ...] = ()
    """Names of values that are compared in standard errors, each with the name of its error, which may be empty. Where there
    are any, only these are compared, and the files that were asked for: all else differs between equal runs, too."""
    bound: float = 3.0
    application: str = ""
    """Its name, where it is one whose results are known: without `files`, these are compared."""
    command: tuple[str, ...] = ()
    """What tells where they are."""


class Pair(msgspec.Struct, frozen=True):
    """Two undisturbed runs, held against each other: what can be asked of the others."""

    parts: tuple[Part, ...]
    files: tuple[str, ...]
    """Final files that are equal in both, or were asked for."""
    notes: tuple[str, ...] = ()
    """What is not compared, and why."""
    left_out: tuple[str, ...] = ()
    """Files that were written and are there in the end, of which nothing is compared."""
    partly: dict[str, tuple[Leaf, ...]] = {}
    """Files of JSON that are equal but for some of their values, such as a time: where these are."""
    last_step: int | None = None
    """The last one that both have logged; None if there is none, or if they ended at different ones."""
    last_values: tuple[str, ...] = ()
    """Names of numbers that both have printed alike after their last step."""
    is_random_equal: bool = False
    """The global random state of our jobs was equal in both at every step: then it must be after a resume."""


def compare_undisturbed(left: Shown, right: Shown, wanted: Wanted) -> Pair:
    notes: list[str] = []
    results = _results_part(left, right, wanted)
    is_found = results is not None or bool(wanted.statistical)
    written = ([], []) if is_found else _written(left, right, wanted.known)
    names, left_out = (_files_of(left, wanted), []) if wanted.files else written
    if wanted.files and not names:
        notes.append(f"no final file matches --file {', '.join(wanted.files)}")
    if left_out:
        notes.append(f"only one of the undisturbed runs has written {told_names(left_out)}: not compared")
    kept, found = [], []
    partly: dict[str, tuple[Leaf, ...]] = {}
    for name in names:
        comparison = _file(left, right, name, wanted)
        is_asked = bool(wanted.files)
        if is_asked or comparison.is_equal:
            kept.append(name)
            found.append(comparison)
        elif comparison.kind == "differs" and Path(name).suffix.lower() in _ARRAYS:
            found.append(comparison)
        elif leaves := _differing_leaves(left, right, name):
            partly[name] = leaves
            found.append(_partly(left, right, name, leaves, wanted))
            notes.append(f"{name}: {told_leaves(leaves)} not compared: other in each undisturbed run")
        else:
            left_out.append(name)
            why = "it differs between the undisturbed runs" if comparison.kind == "differs" else str(comparison)
            notes.append(f"{name} is not compared: {why}")
    state = _state_part(left, right, wanted)
    if state is not None and state.comparison.kind == "not comparable":
        notes.append(f"{STATE} {state.comparison}")
        state = None
    parts = [
        _values_part(left, right, wanted),
        _digests_part(left, right, wanted),
        state,
        results,
    ]
    parts += statistical_parts(left, [right], wanted)
    if found:
        parts.append(Part(FILES, join(found), items=(*kept, *partly)))
    if not any(part is not None and part.comparison.compared for part in parts):
        last = _last_output_part(left, right, wanted)
        if last is None or last.comparison.is_equal:
            parts.append(last)
        else:
            # It may be a time: that says nothing of the job.
            notes.append(f"{OUTPUT} are not compared: they differ between the undisturbed runs")
    values = None
    if not any(part is not None and part.name == OUTPUT for part in parts):
        values = _last_values_part(left, right, wanted, _alike_in_the_end(left, right, wanted, notes))
        parts.append(values)
    compared = tuple(part for part in parts if part is not None)
    notes += [f"{part.name}: {note}" for part in compared for note in part.comparison.notes]
    is_random_equal = state is not None and state.comparison.is_equal and RANDOM_DIFFERS not in state.comparison.notes
    ends = {max(series_of(shown, wanted.known), default=None) for shown in (left, right)}
    return Pair(
        parts=compared,
        files=tuple(kept),
        notes=tuple(dict.fromkeys(notes)),
        left_out=tuple(left_out),
        partly=partly,
        last_step=ends.pop() if len(ends) == 1 else None,
        last_values=values.items if values is not None else (),
        is_random_equal=is_random_equal,
    )


def _alike_in_the_end(left: Shown, right: Shown, wanted: Wanted, notes: list[str]) -> tuple[str, ...]:
    """Names of numbers that both print alike after their last step; what is not alike is noted."""
    if wanted.statistical or wanted.known.finders.values:
        return ()
    ours, theirs = last_values(left, wanted.known.finders), last_values(right, wanted.known.finders)
    other = [name for name in ours if theirs.get(name) != ours[name]]
    if other:
        notes.append(f"{LAST_VALUES}: {', '.join(other)} not compared: other in each undisturbed run")
    return tuple(name for name in ours if name not in other)


def _last_values_part(left: Shown, right: Shown, wanted: Wanted, names: tuple[str, ...]) -> Part | None:
    if not names:
        return None
    finders = wanted.known.finders
    found = compare_last_values(last_values(left, finders), last_values(right, finders), names, wanted.tolerance)
    return Part(LAST_VALUES, found, items=names)


def _documents(left: Shown, right: Shown, name: str) -> tuple[Any, Any] | None:
    """The two files as JSON; None if one is none."""
    if not name.endswith(".json"):
        return None
    files = [shown.place.work / name for shown in (left, right)]
    if not all(file.is_file() and file.stat().st_size <= _MAX_JSON_BYTES for file in files):
        return None
    try:
        one, other = (json.loads(file.read_bytes()) for file in files)
    except (ValueError, RecursionError, OSError):
        return None
    return one, other


def _differing_leaves(left: Shown, right: Shown, name: str) -> tuple[Leaf, ...]:
    """Where two files of JSON differ, if they are alike elsewhere."""
    both = _documents(left, right, name)
    return (differing_leaves(*both) or ()) if both is not None else ()


def _partly(left: Shown, right: Shown, name: str, leaves: tuple[Leaf, ...], wanted: Wanted) -> Comparison:
    both = _documents(left, right, name)
    if both is None:
        return differs(Difference(what=name, left="", right="", reason="the other run has not written it whole"))
    tally = Tally(wanted.tolerance)
    hold(tally, "", without_leaves(both[0], leaves), without_leaves(both[1], leaves), where=name)
    return tally.comparison()


def _last_output_part(left: Shown, right: Shown, wanted: Wanted) -> Part | None:
    found = compare_last_output(left, right, wanted.known.finders, wanted.tolerance)
    return None if found is None else Part(OUTPUT, found)


def _state_part(left: Shown, right: Shown, wanted: Wanted, *, is_random_compared: bool = False) -> Part | None:
    """Of jobs of ours: their state at the newest step at which both have a checkpoint."""
    if not wanted.known.is_with_library or wanted.statistical:
        return None
    return Part(
        STATE, compare_jobs(left.place.job, right.place.job, wanted.tolerance, is_random_compared=is_random_compared)
    )


def _digests_part(left: Shown, right: Shown, wanted: Wanted, *, is_random_compared: bool = False) -> Part | None:
    """State at all steps at which both have saved, by its digests, where equal means equal bits."""
    if not wanted.known.is_with_library or wanted.statistical or not wanted.tolerance.is_exact:
        return None
    found = compare_digests(left.digests, right.digests, is_random_compared=is_random_compared)
    steps = tuple(f"step {step}" for step in (*found.equal_steps, *found.differing_steps))
    equal_to = None
    if found.first_differing is not None:
        equal_to = max((step for step in found.equal_steps if step < found.first_differing), default=None)
    return Part(DIGESTS, digests_as_comparison(found), equal_to, items=steps) if steps else None


def compare_resumed(left: Shown, right: Shown, wanted: Wanted, pair: Pair) -> tuple[Part, ...]:
    """`left`: undisturbed."""
    # A checkpoint on the way is written by the clock, often: at other steps. What is there must be equal.
    units = wanted.known.units if not wanted.files else Units(())
    files = [name for name in pair.files if units.unit_of(name) is None or (right.place.work / name).is_file()]
    parts = [
        _values_part(left, right, wanted),
        _digests_part(left, right, wanted, is_random_compared=pair.is_random_equal),
        _results_part(left, right, wanted),
    ]
    if any(part.name == STATE for part in pair.parts):
        parts.append(_state_part(left, right, wanted, is_random_compared=pair.is_random_equal))
    found = [_file(left, right, name, wanted) for name in files]
    found += [_partly(left, right, name, leaves, wanted) for name, leaves in pair.partly.items()]
    if found:
        parts.append(Part(FILES, join(found), items=(*files, *pair.partly)))
    parts.append(_last_values_part(left, right, wanted, pair.last_values))
    if any(part.name == OUTPUT for part in pair.parts):
        parts.append(_last_output_part(left, right, wanted))
    return tuple(part for part in parts if part is not None)


def _results_part(left: Shown, right: Shown, wanted: Wanted) -> Part | None:
    """What an application that is known leaves as its answer; None where nothing is known of it, or files were named."""
    if not wanted.application or wanted.files or wanted.statistical:
        return None
    works = left.place.work, right.place.work
    one, other = (
        results_of(wanted.application, [word.replace(RUN, str(work)) for word in wanted.command], str(work))
        for work in works
    )
    if not one:
        return None
    answers = compare_results(works[0], one, works[1], other, Rule(wanted.tolerance))
    return Part(RESULTS, in_all(answers), items=tuple(name for name, _ in answers))


def series_of(shown: Shown, known: Known) -> Series:
    """What a run logged: by our library, or by the lines of its output."""
    if is_exact(known):
        try:
            return series_of_job(shown.place.job)
        except LastgoodError:
            return {}
    return merged(_by_attempt(shown, known), is_in_parts=bool(known.finders.inner))


def is_exact(known: Known) -> bool:
    """True where values are recorded by our library, in all their bits; else they are as the program printed them."""
    return known.is_with_library and not known.finders.values


def redone_otherwise(shown: Shown, known: Known, tolerance: Tolerance) -> str:
    """What a run says against itself: steps that it did twice, with other values the second time. Empty if nothing."""
    try:
        attempts = attempts_of_job(shown.place.job) if is_exact(known) else _by_attempt(shown, known)
    except LastgoodError:
        return ""
    found = compare_redone(attempts, tolerance)
    return str(found) if found.changed else ""


def _by_attempt(shown: Shown, known: Known) -> list[tuple[int, dict[int, dict[str, str]]]]:
    return series_of_attempts(attempts_of([(line.start, line.text) for line in shown.lines]), known.finders)


def statistical_parts(
    left: Shown, rights: Sequence[Shown], wanted: Wanted, should_end_at: int | None = None
) -> list[Part]:
    """One for each run; what is said of all together is with the last. None at all where nothing was asked for.
    `should_end_at`: the last step of undisturbed runs, if it is always the same."""
    if not wanted.statistical or not rights:
        return []
    known = wanted.known
    series = [series_of(right, known) for right in rights]
    found = compare_statistically(series_of(left, known), series, wanted.statistical, wanted.bound)
    names = tuple(name for name, _ in wanted.statistical)
    parts = []
    for number in range(1, len(rights) + 1):
        others = {f"run {other}" for other in range(1, len(rights) + 1)} - {f"run {number}"}
        is_last = number == len(rights)
        tests = tuple(
            test for test in found.tests if test.run == f"run {number}" or (is_last and test.run not in others)
        )
        lacking = tuple(one for one in found.lacking if one.run == f"run {number}")
        comparison = as_comparison(msgspec.structs.replace(found, tests=tests, lacking=lacking))
        ends_at = max(series[number - 1], default=None) if should_end_at is not None else None
        parts.append(Part(ESTIMATES, comparison, ends_at=ends_at, should_end_at=should_end_at, items=names))
    return parts


def _values_part(left: Shown, right: Shown, wanted: Wanted) -> Part | None:
    if wanted.statistical:
        return None
    a, b = series_of(left, wanted.known), series_of(right, wanted.known)
    if not a and not b:
        return None
    found = compare_series(a, b, wanted.tolerance)
    first = found.comparison.first_beyond
    equal_to = None
    if first is not None and first.step is not None:
        equal_to = max((step for step in a.keys() & b.keys() if step < first.step), default=0)
    names = dict.fromkeys(name for values in a.values() for name in values)
    return Part(VALUES, found.comparison, equal_to, found.last_right, found.last_left, tuple(names))


def _file(left: Shown, right: Shown, name: str, wanted: Wanted) -> Comparison:
    one, other = left.place.work / name, right.place.work / name
    for path, whose in ((one, "the undisturbed run"), (other, "the other run")):
        if not path.is_file():
            return differs(Difference(what=name, left="", right="", reason=f"{whose} has not written it"))
    if one.samefile(other):
        return not_comparable(f"{name} is the same file for both, outside of their directories")
    places = (str(left.place.work), str(right.place.work))
    return compare_files(one, other, Rule(wanted.tolerance, places=places), where=name)


def _files_of(shown: Shown, wanted: Wanted) -> list[str]:
    """Final files that the user's patterns name."""
    there = stamps_below(shown.place.work)
    return [name for name in sorted(there) if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted.files)]


def only_there(run: Shown, others: Sequence[Shown], known: Known) -> tuple[str, ...]:
    """What a run has written that is in none of the others in the end: no checkpoint, and nothing that calls itself
    temporary."""
    elsewhere = {name for shown in (run, *others) for name in shown.baseline}
    elsewhere |= {name for shown in others for name in stamps_below(shown.place.work)}
    return tuple(
        name
        for name in sorted(stamps_below(run.place.work))
        if name not in elsewhere and known.units.unit_of(name) is None and not is_temporary(Path(name).name)
    )


def _written(left: Shown, right: Shown, known: Known) -> tuple[list[str], list[str]]:
    """What both have written, or changed, and still have at their end, whatever it is called; and what only one has, such as
    with a time in its name, but for checkpoints, which are often written by the clock."""
    written = []
    for shown in (left, right):
        now = stamps_below(shown.place.work)
        written.append({name for name, stamp in now.items() if shown.baseline.get(name) != stamp})
    others = sorted(written[0] ^ written[1])
    return sorted(written[0] & written[1]), [name for name in others if known.units.unit_of(name) is None]
