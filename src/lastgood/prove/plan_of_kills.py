"""When a proof kills: by what the undisturbed run showed. Pure.

A kill tells something only where there is a checkpoint to resume from and work left to do. One lands between two
checkpoints, where what was done since must be done again, equal; one where a checkpoint is being written, where a file that
is half written shows; and where the names of checkpoints stop sorting by age (`step_9`, `step_10`), one lands after that.
"""

import math
import random
from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

import msgspec

from lastgood.core.numbering import numbers_in

MOST_KILLS = 100


class Phase(Enum):
    BETWEEN = "between two checkpoints"
    SAVE = "while it saves"


class Save(msgspec.Struct, frozen=True):
    """A checkpoint that the undisturbed run has written."""

    at_s: float
    """Since its start."""
    path: str = ""
    """As the program names it; empty where our library writes it."""
    step: int | None = None
    """That it holds, or that was seen to be done before it was written."""
    step_by: int | None = None
    """That was seen to be done when it was seen to be there; None if `step` is exact."""


class Profile(msgspec.Struct, frozen=True):
    """An undisturbed run, as far as kills depend on it."""

    duration_s: float
    saves: tuple[Save, ...]
    """In order of time."""
    last_step: int | None = None
    """None if no step can be seen."""
    first_step: int | None = None


class Kill(msgspec.Struct, frozen=True):
    """When to kill."""

    phase: Phase
    save: int
    """How many checkpoints must be there before."""
    step: int | None = None
    """Kill as soon as this step is done; None: by time."""
    after_s: float = 0.0
    """Where no step can be seen: so long after that checkpoint."""
    lead: int = 0
    """So many checkpoints before, whoever aims at a save begins to watch: it takes a moment to begin."""


def plan(profile: Profile, kills: int, seed: int) -> list[tuple[Kill, ...]]:
    """The kills of each disturbed run. The third kills twice: what is put back wrongly the second time shows only there.

    Raises ValueError if no kill can tell anything: see `usable_saves`.
    """
    usable = usable_saves(profile)
    if not usable:
        raise ValueError("there is no checkpoint with work after it")
    chance = random.Random(seed)
    runs: list[tuple[Kill, ...]] = []
    for number in range(kills):
        if number % 3 == 1:
            runs.append((_at_save(profile, usable, chance),))
        elif number % 3 == 2 and len(usable) > 1:
            early = _between(profile, usable[: len(usable) // 2], chance)
            late = _between(profile, usable[len(usable) // 2 :], chance)
            runs.append((early, late))
        else:
            told = _out_of_order(profile, usable) if number == 0 else None
            runs.append((_between(profile, usable if told is None else [told], chance),))
    return runs


def earlier(profile: Profile) -> tuple[Kill, ...]:
    """One kill as early as there is something to resume from: for a run that was too fast for the one that was planned."""
    return (_between(profile, usable_saves(profile)[:1], random.Random(0)),)


def usable_saves(profile: Profile) -> list[int]:
    """Which checkpoints, by their place in `profile.saves`, have work after them."""
    if profile.last_step is not None and any(save.step is not None for save in profile.saves):
        last = profile.last_step
        steps = [save.step if save.step_by is None else save.step_by for save in profile.saves]
        return [i for i, step in enumerate(steps) if step is not None and step < last]
    return [i for i, save in enumerate(profile.saves) if save.at_s < 0.97 * profile.duration_s]


def startup_s(profile: Profile) -> float:
    """How long it takes before its work begins: what comes before the first checkpoint beyond the longest time between two;
    0 where there are no two."""
    gaps = [after.at_s - before.at_s for before, after in pairwise(profile.saves)]
    return max(profile.saves[0].at_s - max(gaps), 0.0) if gaps else 0.0


def _between(profile: Profile, usable: Sequence[int], chance: random.Random) -> Kill:
    """In the middle third of the interval after one of the middle ones."""
    which = usable[len(usable) // 2] if len(usable) < 3 else chance.choice(_middle(usable))
    begin, end = _interval(profile, which)
    share = chance.uniform(0.4, 0.7)
    if isinstance(begin.step, int) and isinstance(end.step, int):
        step = min(max(begin.step + 1, round(begin.step + share * (end.step - begin.step))), max(end.step - 1, 1))
        return Kill(Phase.BETWEEN, which + 1, step=step)
    return Kill(Phase.BETWEEN, which + 1, after_s=share * max(end.at_s - begin.at_s, 0.0))


def _at_save(profile: Profile, usable: Sequence[int], chance: random.Random) -> Kill:
    """At a checkpoint that has one before it, if there is such a one."""
    candidates = [i for i in usable if i > 0] or list(usable)
    which = chance.choice(_middle(candidates))
    save = profile.saves[which]
    before = profile.saves[which - 1] if which else Save(0.0, step=0)
    return Kill(
        Phase.SAVE,
        which,
        step=save.step,
        after_s=max(save.at_s - before.at_s, 0.0),
        lead=_lead(profile, which),
    )


_TO_BEGIN_S = 1.0


def _lead(profile: Profile, which: int) -> int:
    """How many checkpoints are written in the time that it takes to begin to watch, of those that leave one before."""
    saves = profile.saves
    every_s = (saves[-1].at_s - saves[0].at_s) / max(len(saves) - 1, 1)
    return max(min(math.ceil(_TO_BEGIN_S / every_s) if every_s > 0 else 0, which - 1), 0)


def _middle(of: Sequence[int]) -> Sequence[int]:
    """Without the first quarter and the last three eighths: where a machine is busy, a kill comes late."""
    return of[len(of) // 4 : len(of) - 3 * len(of) // 8]


def _interval(profile: Profile, which: int) -> tuple[Save, Save]:
    saves = profile.saves
    end = Save(profile.duration_s, step=profile.last_step)
    return saves[which], saves[which + 1] if which + 1 < len(saves) else end


def _out_of_order(profile: Profile, usable: Sequence[int]) -> int | None:
    """The first checkpoint that is not the last one of those so far if their names are sorted as text."""
    last_as_text = ""
    wanted = set(usable)
    for i, save in enumerate(profile.saves):
        if not numbers_in(save.path):
            continue
        if i in wanted and save.path < last_as_text:
            return i
        last_as_text = max(last_as_text, save.path)
    return None


def not_sorted(paths: Sequence[str]) -> bool:
    """The newest of these, which is the last, does not come last when names are sorted as text.

    >>> not_sorted(["step_8", "step_9", "step_10"]), not_sorted(["step_08", "step_09", "step_10"])
    (True, False)
    """
    numbered = [path for path in dict.fromkeys(paths) if numbers_in(path)]
    return len(numbered) > 1 and max(numbered) != paths[-1] and paths[-1] in numbered


def print_every(steps: Sequence[int]) -> int:
    """How many steps lie between two that are shown, at the most usual.

    >>> print_every([10, 20, 30, 35])
    10
    """
    gaps = [b - a for a, b in pairwise(steps) if b > a]
    return max(set(gaps), key=gaps.count) if gaps else 1
