"""The state in checkpoints of ours as values that can be compared, and as digests: verified while it is read."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import xxhash

from lastgood.core import tree
from lastgood.core.dtypes import TO_NUMPY
from lastgood.core.errors import DamagedError, NoSuchJobError
from lastgood.frameworks.numpy_adapter import FRAMEWORK as NUMPY
from lastgood.prove.arrays import ENCODED, Flat, Numbers, numbers
from lastgood.prove.difference import EXACT, Comparison, Difference, Tolerance, join, not_comparable
from lastgood.prove.tally import Tally
from lastgood.prove.values import hold
from lastgood.runtime.state import DATA, RANDOM
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.export import Export, Source, select
from lastgood.store.jobdir import JobDirectory, open_job
from lastgood.store.reader import Checkpoint, open_checkpoint

RANDOM_DIFFERS = (
    "the global random state differs (entry lastgood.random): it matters where the program draws from it, and is never equal "
    "where nothing seeds it"
)


class StateDigest(msgspec.Struct, frozen=True):
    """What is left of a state when its checkpoint is gone: a digest of each array and of each value."""

    step: int
    checkpoint: str
    digests: dict[str, str]
    """XXH3-128 of type, shape and bytes, by name; it finds accidents, not attackers."""


class DigestComparison(msgspec.Struct, frozen=True, kw_only=True):
    """At which steps two runs had the same state."""

    equal_steps: tuple[int, ...]
    first_differing: int | None = None
    names: tuple[str, ...] = ()
    """What differs there."""
    differing_steps: tuple[int, ...] = ()
    only_left: tuple[int, ...] = ()
    """Steps at which only the undisturbed run has a checkpoint."""
    only_right: tuple[int, ...] = ()
    random_differs_from: int | None = None
    """The first step at which the global random state is another. It decides nothing unless that was asked for: a program
    that draws from its own generators never seeds the global one, which then differs between any two runs."""

    def __str__(self) -> str:
        if not self.equal_steps and self.first_differing is None:
            return "no step at which both have a checkpoint"
        parts = []
        if self.equal_steps:
            parts.append(f"state equal at {steps_told(self.equal_steps)}")
        if self.first_differing is not None:
            more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
            parts.append(f"state differs first at step {self.first_differing:,} in {', '.join(self.names[:5])}{more}")
        if self.random_differs_from is not None:
            parts.append(f"the global random state differs from step {self.random_differs_from:,} on")
        return "; ".join(parts)


def checkpoints_by_step(job: JobDirectory) -> dict[int, str]:
    """The names of the committed checkpoints that count, by rising step: of one step the newest attempt's."""
    found: dict[int, str] = {}
    for listed in list_checkpoints(job):
        if listed.is_committed and not listed.rejected and not listed.is_set_aside and not listed.is_link:
            found.setdefault(listed.step, listed.name)
    return dict(sorted(found.items()))


def read_state(job: JobDirectory | Path | str, name: str = "") -> dict[str, object]:
    """The state in a checkpoint (the newest by step, unless named): each entry by name, arrays read when they are
    compared. Raises NoSuchJobError if there is none, DamagedError where it does not pass its checks."""
    job = job if isinstance(job, JobDirectory) else open_job(job)
    if not name:
        there = checkpoints_by_step(job)
        if not there:
            raise NoSuchJobError(f"{job.path} has no committed checkpoint")
        name = there[max(there)]
    return _values(_export(open_checkpoint(job, name)))


def compare_jobs(
    left: Path, right: Path, tolerance: Tolerance = EXACT, *, where: str = "", is_random_compared: bool = False
) -> Comparison:
    """Hold the state of two jobs against each other, at each step at which both have a checkpoint still. The global random
    state is compared with it where it is known to be equal between equal runs; otherwise it is only told."""
    jobs = [open_job(path) for path in (left, right)]
    steps = [checkpoints_by_step(job) for job in jobs]
    for path, there in zip((left, right), steps, strict=True):
        if not there:
            return not_comparable(f"{path} has no committed checkpoint")
    common = steps[0].keys() & steps[1].keys()
    if not common:
        return not_comparable(
            f"no step at which both have a checkpoint: {steps_told(tuple(steps[0]))} against {steps_told(tuple(steps[1]))}"
        )
    tally, apart = Tally(tolerance), Tally()
    for step in sorted(common):
        states = [read_state(job, there[step]) for job, there in zip(jobs, steps, strict=True)]
        parted = [random_apart(state) for state in states]
        hold(tally, "", parted[0][0], parted[1][0], where=where, step=step)
        hold(tally if is_random_compared else apart, "", parted[0][1], parted[1][1], where=where, step=step)
    if apart.beyond_in_all:
        tally.note(RANDOM_DIFFERS)
    if any(max(there) != max(common) for there in steps):
        newest = " and ".join(f"{max(there):,}" for there in steps)
        tally.note(
            f"state compared at {steps_told(tuple(sorted(common)))}; the newest checkpoints are of steps {newest}"
        )
    return tally.comparison()


def digest_state(checkpoint: Checkpoint) -> StateDigest:
    """Digests of everything in a checkpoint, from data that passed its checks. Takes memory for one array."""
    export = _export(checkpoint)
    digests: dict[str, str] = {}
    for name, source in export.arrays.items():
        digest = xxhash.xxh3_128(f"{source.spec.dtype} {source.spec.shape} {sorted(source.tag.items())}\n".encode())
        digest.update(checkpoint.read(source.rank, [source.spec.name])[source.spec.name])
        digests[name] = digest.hexdigest()
    for entry, skeleton in export.entries.items():
        for place, value in _leaves(skeleton, entry):
            digests[place] = xxhash.xxh3_128_hexdigest(msgspec.json.encode(value))
    return StateDigest(checkpoint.manifest.step, checkpoint.name, digests)


def digests_of_job(
    job: JobDirectory | Path | str, steps: Iterable[int] | None = None, known: Mapping[int, StateDigest] | None = None
) -> dict[int, StateDigest]:
    """Digests of the checkpoints that a job has now (at some steps, or at all), by rising step. Those in `known` are not
    read again unless a newer attempt has written that step anew; those that retention has deleted since stay known.

    A checkpoint that is deleted while it is read is left out."""
    job = job if isinstance(job, JobDirectory) else open_job(job)
    found = dict(known or {})
    wanted = None if steps is None else set(steps)
    for step, name in checkpoints_by_step(job).items():
        if (wanted is not None and step not in wanted) or (step in found and found[step].checkpoint == name):
            continue
        try:
            found[step] = digest_state(open_checkpoint(job, name))
        except (NoSuchJobError, FileNotFoundError, DamagedError):
            if name in checkpoints_by_step(job).values():
                raise
    return dict(sorted(found.items()))


def compare_digests(
    left: Mapping[int, StateDigest], right: Mapping[int, StateDigest], *, is_random_compared: bool = False
) -> DigestComparison:
    """Hold the digests of two runs against each other at the steps that both have; random state as in `compare_jobs`.

    >>> a = {100: StateDigest(100, "a", {"w": "1"}), 200: StateDigest(200, "b", {"w": "2"})}
    >>> b = {100: StateDigest(100, "a", {"w": "1"}), 200: StateDigest(200, "b", {"w": "3"})}
    >>> print(compare_digests(a, b))
    state equal at step 100; state differs first at step 200 in w
    """
    equal, differing, random = [], [], []
    names: tuple[str, ...] = ()
    for step in sorted(left.keys() & right.keys()):
        one, other = left[step].digests, right[step].digests
        all_unequal = [name for name in dict.fromkeys([*one, *other]) if one.get(name) != other.get(name)]
        unequal = tuple(name for name in all_unequal if is_random_compared or not _is_random(name))
        if any(_is_random(name) for name in all_unequal):
            random.append(step)
        if unequal:
            names = names or unequal
            differing.append(step)
        else:
            equal.append(step)
    return DigestComparison(
        equal_steps=tuple(equal),
        first_differing=differing[0] if differing else None,
        names=names,
        differing_steps=tuple(differing),
        only_left=tuple(sorted(left.keys() - right.keys())),
        only_right=tuple(sorted(right.keys() - left.keys())),
        random_differs_from=random[0] if random else None,
    )


def as_comparison(digests: DigestComparison) -> Comparison:
    """Digests as an answer like any other."""
    parts = []
    if digests.equal_steps:
        parts.append(Comparison(kind="identical", compared=len(digests.equal_steps)))
    for step in digests.differing_steps:
        what = ", ".join(digests.names[:5]) if step == digests.first_differing else "state"
        difference = Difference(what=what, left="", right="", step=step, reason="another digest of the state")
        parts.append(
            Comparison(kind="differs", compared=1, differing=1, beyond=1, first=difference, first_beyond=difference)
        )
    return join(parts, "no step at which both have a checkpoint")


def _is_random(name: str) -> bool:
    # With several ranks each has its own: "rank-00001.lastgood.random...".
    place = name.partition(".")[2] if name.startswith("rank-") else name
    return place.startswith((RANDOM, _RANDOM_AT_OPEN))


_RANDOM_AT_OPEN = f"{DATA}.at_open.global"
"""The same, as it was when the epoch's loader was opened."""


def random_apart(state: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """A state without the global random state, and that alone."""
    rest: dict[str, object] = {}
    random: dict[str, object] = {}
    for name, value in state.items():
        opened = value.get("at_open") if isinstance(value, dict) else None
        if _is_random(name):
            random[name] = value
        elif name.endswith(DATA) and isinstance(value, dict) and isinstance(opened, dict):
            rest[name] = {**value, "at_open": {key: one for key, one in opened.items() if key != "global"}}
            random[f"{name}.at_open.global"] = opened.get("global")
        else:
            rest[name] = value
    return rest, random


def _export(checkpoint: Checkpoint) -> Export:
    entries = list(checkpoint.part(0).entries)
    return select(checkpoint, entries, entries, None)


class _AnyTag:
    """Values of frameworks as what they are stored as: to be compared, not to be used."""

    def to_leaf(self, value: object) -> None:
        return None

    def to_json(self, value: object) -> None:
        return None

    def from_json(self, tag: str, content: Any) -> object:
        return {tag: content}


def _values(export: Export) -> dict[str, object]:
    def array(name: str, kind: str, tag: dict[str, Any]) -> Numbers:
        return _numbers(export.checkpoint, export.arrays[name])

    return {name: tree.unflatten(entry, array, (NUMPY, _AnyTag())) for name, entry in export.entries.items()}


def _numbers(checkpoint: Checkpoint, source: Source) -> Numbers:
    spec, tag = source.spec, source.tag
    if "dtype" in tag:
        storage, shape = np.dtype(tag["dtype"]), tuple(tag["shape"])
    else:
        storage, shape = np.dtype(ENCODED.get(spec.dtype) or TO_NUMPY[spec.dtype]), spec.shape

    def whole() -> "np.ndarray[Any, Any]":
        data = checkpoint.read(source.rank, [spec.name])[spec.name]
        return np.frombuffer(data, storage).reshape(shape) if len(data) else np.empty(shape, storage)

    def chunks(count: int) -> Iterator[Flat]:
        return numbers(whole()).chunks(count)

    native = storage.newbyteorder("=")
    return Numbers(spec.dtype if spec.dtype in ENCODED else str(native), native, shape, "C", chunks, whole)


def _leaves(skeleton: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Everything in a skeleton that is no array, with its place."""
    if isinstance(skeleton, dict) and "$array" in skeleton:
        return
    if isinstance(skeleton, dict) and not next(iter(skeleton), "").startswith("$") and skeleton:
        for key, value in skeleton.items():
            yield from _leaves(value, f"{at}.{key}")
    elif isinstance(skeleton, list) and any(isinstance(item, dict | list) for item in skeleton):
        for index, value in enumerate(skeleton):
            yield from _leaves(value, f"{at}[{index}]")
    else:
        yield at, skeleton


def steps_told(steps: tuple[int, ...]) -> str:
    """As people read it, the first and the last of them.

    >>> steps_told((10, 20))
    'steps 10, 20'
    """
    shown = [f"{step:,}" for step in steps]
    if len(shown) > 6:
        shown = [*shown[:3], "...", *shown[-2:]]
    return f"{'step' if len(steps) == 1 else 'steps'} {', '.join(shown)}"
