"""What the undisturbed run shows that the others are planned by: its steps, its checkpoints, how it resumes."""

import fnmatch
import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import chdir, suppress
from itertools import pairwise

import msgspec

from lastgood.apps.known import adapter_for
from lastgood.core.errors import LastgoodError
from lastgood.core.numbering import kind_of
from lastgood.core.quoting import shown_command
from lastgood.prove.at_write import Aim
from lastgood.prove.checkpoint_files import Units, are_steps, guess, matching, saves_of
from lastgood.prove.output_lines import Finders, guess_inner_pattern, guess_step_pattern, steps_in
from lastgood.prove.plan_of_kills import Profile, Save, usable_saves
from lastgood.prove.shown import Shown
from lastgood.prove.watching import Written
from lastgood.trial.target import Target, Way

_BEFORE_THE_END = 0.97
"""Where no step can be seen: what is written after this share of a run is taken for its results."""


_BEGIN_ANEW = (
    "the steps that it prints begin anew, as in each epoch, and do not tell how much is done: number them through, or give "
    "--step-pattern"
)


class Known(msgspec.Struct, frozen=True):
    """What is known of the command after its first undisturbed run."""

    way: Way
    way_reason: str
    profile: Profile
    units: Units
    """Its own checkpoints; of no kind where our library writes them."""
    finders: Finders
    aims: tuple[Aim, ...] = ()
    """How it can be killed in the middle of a save, the most promising first; none where that cannot be aimed at."""
    is_with_library: bool = False
    notes: tuple[str, ...] = ()
    """What cannot be seen, and what to do about it."""


def learn(shown: Shown, target: Target, way: Way | None, values: dict[str, str]) -> Known:
    """`way`: as the user has said; None: by what the run showed."""
    texts = [line.text for line in shown.lines]
    is_with_library = shown.is_with_library
    is_told = is_with_library and not values
    pattern = target.step_pattern or ("" if is_told else guess_step_pattern(texts))
    inner = "" if is_told or target.step_pattern else guess_inner_pattern(texts)
    finders = Finders(
        pattern,
        values,
        is_step_guessed=bool(pattern) and not target.step_pattern,
        is_values_guessed=not is_with_library and not values,
        inner=inner if pattern else "",
    )
    chosen, reason = _way(way, target, is_with_library=is_with_library)
    if is_with_library:
        return Known(chosen, reason, _by_journal(shown), Units(()), finders, is_with_library=True)
    steps = steps_in(texts, pattern)
    last = max(steps, default=None)
    units = _units(shown, target, pattern)
    is_by_step = are_steps([save.path for save in saves_of(shown.written, units, shown.began)], last)
    units = msgspec.structs.replace(units, are_numbered_by_step=is_by_step)
    saves = saves_of(_with_steps(shown, pattern), units, shown.began) or _told_saves(shown)
    profile = Profile(shown.duration_s, saves, last, min(steps, default=None))
    aims = () if application_of(target) else _aims(shown, units, saves)
    return Known(chosen, reason, profile, units, finders, aims, notes=(_BEGIN_ANEW,) if inner and not pattern else ())


def _with_steps(shown: Shown, pattern: str) -> list[Written]:
    """What was written, with the step that the lines had told by then: while it ran nobody knew where to look for it."""
    told = [(line.at, steps[-1]) for line in shown.lines if (steps := steps_in([line.text], pattern))]
    times = [at for at, _ in told]

    def step_at(at: float) -> int | None:
        before = bisect_right(times, at)
        return told[before - 1][1] if before else None

    return [msgspec.structs.replace(one, step=step_at(one.since), step_by=step_at(one.at)) for one in shown.written]


def without_checkpoint(known: Known, target: Target) -> str:
    """Why no kill can tell anything; empty if one can."""
    if usable_saves(known.profile):
        return ""
    saves = known.profile.saves
    if saves:
        only = "its only checkpoint is" if len(saves) == 1 else "its checkpoints are all"
        return f"{only} written at its end: a kill before would lose everything, and there is nothing to resume from"
    where = (
        f"nothing matched --checkpoints {target.checkpoints}" if target.checkpoints else "no file that looks like one"
    )
    return f"it never checkpoints: {where} was written before its end, and a kill would lose everything"


def _way(way: Way | None, target: Target, *, is_with_library: bool) -> tuple[Way, str]:
    if way is not None:
        words = {
            Way.AGAIN: "the same command again, as asked",
            Way.LASTGOOD: f"lastgood run {shown_command(target.options)}".rstrip(),
        }
        if way is Way.AGAIN and target.resume_command:
            return way, "the command of --resume-command"
        return way, words.get(way, way.value)
    if is_with_library:
        return Way.LASTGOOD, "lastgood run: the program uses the library"
    return Way.AGAIN, "the same command again: it does not use lastgood, and no other way was given"


def application_of(target: Target) -> str:
    """What --app names; empty if nothing does."""
    for word, following in pairwise((*target.options, "")):
        if word == "--app" or word.startswith("--app="):
            return word.partition("=")[2] or following
    return ""


def _by_journal(shown: Shown) -> Profile:
    saves: dict[int, Save] = {}
    last = None
    for record in shown.records:
        for event in record.events:
            step = event.data.get("step")
            if isinstance(step, int):
                last = step if last is None else max(last, step)
                if event.kind == "committed":
                    saves.setdefault(step, Save(event.at - shown.began, step=step))
    seen = [step for _, _, step in shown.steps]
    return Profile(shown.duration_s, tuple(saves[step] for step in sorted(saves)), max([*seen, last or 0]), 1)


def _told_saves(shown: Shown) -> tuple[Save, ...]:
    """Those that our launcher has seen, of an application that it knows."""
    found = []
    for record in shown.records:
        for event in record.events:
            if event.kind == "committed":
                step = event.data.get("step")
                found.append(Save(event.at - shown.began, str(event.data.get("name", "")), step if step else None))
    return tuple(found)


def _checkpoints_of_application(shown: Shown, target: Target) -> list[str]:
    """Those that our launcher has seen, which looks now and then only, and those that are there in the end."""
    names = [str(e.data.get("name", "")) for r in shown.records for e in r.events if e.kind == "committed"]
    with suppress(LastgoodError, OSError), chdir(shown.place.work):
        adapter = adapter_for(application_of(target), target.command_in(shown.place.work))
        names += [path for found in adapter.candidates() for path in (found.path, *found.parts)]
    return [os.path.normpath(name) for name in dict.fromkeys(names) if name]


def _units(shown: Shown, target: Target, pattern: str) -> Units:
    if target.checkpoints:
        pattern = os.path.normpath(target.checkpoints.replace("{run}/", ""))

        def is_match(path: str) -> bool:
            return any(fnmatch.fnmatchcase(part, pattern) for part in _above(path))

        return matching(shown.written, is_match)
    if application_of(target):
        names = _checkpoints_of_application(shown, target)
        # A checkpoint may be a directory, whose files are seen to be written.
        inside = matching(shown.written, lambda path: any(part in names for part in _above(path)))
        return inside if inside.kinds else Units(tuple(dict.fromkeys(kind_of(name) for name in names)))
    told = [line.at for line in shown.lines if steps_in([line.text], pattern)]
    return guess(shown.written, max(told, default=shown.began + _BEFORE_THE_END * shown.duration_s))


def _above(path: str) -> list[str]:
    """The path, and each directory that it is in."""
    parts = path.split("/")
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def _aims(shown: Shown, units: Units, saves: Sequence[Save]) -> tuple[Aim, ...]:
    paths = tuple(_file_of(shown, units, save) for save in saves)
    if not paths or not all(paths):
        return ()
    by_write, by_rename = Aim(paths), Aim(paths, is_at_rename=True)
    inodes = {one.inode for one in shown.written if one.path == paths[0]}
    if len(saves) > 1 and len(set(paths)) == 1:
        return (by_rename if len(inodes) > 1 else by_write,)
    return (by_rename,) if shown.temporary else (by_write, by_rename)


def _file_of(shown: Shown, units: Units, save: Save) -> str:
    """The largest file of a checkpoint: the one whose writing takes longest."""
    files = [one for one in shown.written if units.unit_of(one.path) == save.path]
    return max(files, key=lambda one: one.size_bytes).path if files else ""
