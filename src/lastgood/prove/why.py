"""Why a resumed run may not be equal: from what its runs showed, what its checkpoints hold, and what its source says."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lastgood.core.numbering import numbers_in
from lastgood.prove.causes import Cause
from lastgood.prove.contents import OPTIMIZER, POSITION, RANDOM, SCHEDULE, Contents, contents_of
from lastgood.prove.environment import changes, unsteady
from lastgood.prove.library_state import causes_of, held_by
from lastgood.prove.onset import Onset, onset_of, repeated_stretch
from lastgood.prove.plan_of_kills import not_sorted
from lastgood.prove.profiling import Known
from lastgood.prove.program import Program, Stateful, read_program
from lastgood.prove.resuming import Resumed
from lastgood.prove.series import Series
from lastgood.prove.shown import Shown
from lastgood.prove.state import Pieces, pieces_of_files, pieces_of_jobs
from lastgood.prove.verdict import Answer, Judged, Killed
from lastgood.trial.target import Target, Way

_MOST_SOURCE_BYTES = 2 * 2**20
_MOST_NAMES = 12
_PLUMBING = ("storage", "cpu")
"""What a pickle of torch says with each tensor."""
_WHERE = 9
"""Where it begins comes before what it may be."""
_IN_PLACE = "write it under another name, flush it, and rename it at the end (os.replace); and keep the one before"
_POSITION = "save how far in the data it is, with the state of what shuffles it, and go on from there"
_STATE = "save it with the rest and put it back when resuming, before the first step"


class Bad(msgspec.Struct, frozen=True):
    """A run that did not come through equal."""

    shown: Shown
    killed: Killed
    judged: Judged
    series: Series

    @property
    def answers(self) -> set[Answer]:
        return {self.judged.answer, *(answer for answer, _ in self.judged.also)}


def diagnose(known: Known, target: Target, first: Shown, series: Series, bad: Sequence[Bad]) -> tuple[Cause, ...]:
    """What may be the reason, the most certain first. `first` is the undisturbed run, `series` what it logged."""
    contents = _contents(known, first)
    program = _program(target)
    found: dict[str, Cause] = {}
    for run in bad:
        for cause in _of_run(run, known, contents, program, first, series):
            if cause.certainty == _WHERE and any(other.certainty == _WHERE for other in found.values()):
                continue
            old = found.get(cause.name)
            if old is None or cause.certainty > old.certainty:
                found[cause.name] = cause
    return tuple(sorted(found.values(), key=lambda cause: -cause.certainty))


def diagnose_itself(target: Target, first: Shown, second: Shown) -> tuple[Cause, ...]:
    """Why two undisturbed runs may differ."""
    program = _program(target)
    found = []
    if program is not None and program.unseeded:
        told = (f"made without a fixed seed: {', '.join(program.unseeded[:3])}",)
        found.append(
            Cause("random numbers are others in each run", told, "give each generator a seed that is the same", 2)
        )
    if "mdrun" in target.command and "-reprod" not in target.command:
        told = ("GROMACS balances its load by measured times, which changes the order of sums",)
        found.append(Cause("mdrun runs without -reprod", told, "add -reprod, or compare with --rtol", 2))
    if lines := unsteady(first):
        remedy = "switch it, for the proof: torch.use_deterministic_algorithms(True), and what it asks for"
        found.append(Cause("the environment allows for other sums in each run", tuple(lines), remedy, 1))
    if lines := changes(first, second):
        found.append(Cause("the environments of the two runs differ", tuple(lines), "", 1))
    if not found:
        remedy = "look for seeds, the clock, the order of files and sets, and threads; or compare with --rtol or --statistical"
        found.append(Cause("nothing that is known points to a reason", (), remedy, 0))
    return tuple(found)


def _of_run(
    run: Bad, known: Known, contents: Contents | None, program: Program | None, first: Shown, series: Series
) -> Iterator[Cause]:
    yield from _in_place(run)
    for resumed in run.killed.resumed:
        yield from _out_of_order(resumed)
        yield from _not_looked_for(resumed, known)
    if Answer.DIVERGED not in run.answers:
        return
    resumed_from = run.killed.resumed[0].step if run.killed.resumed else None
    onset = onset_of(series, run.series, resumed_from)
    pieces = _pieces(run, known, first, resumed_from)
    causes = list(_of_contents(run, known, contents, program, onset, series))
    if known.is_with_library and (held := held_by(first.place.job)) is not None:
        causes += causes_of(held, program, is_at_once=onset is None or onset.place == 0)
    causes += _appended(run)
    if lines := changes(first, run.shown):
        causes.append(Cause("the environment is another one after the resume", tuple(lines[:_MOST_NAMES]), "", 1))
    if onset is not None or (pieces is not None and pieces.differing):
        name = str(onset) if onset is not None else "saved state differs"
        yield Cause(name, pieces.told() if pieces is not None else (), "", _WHERE)
    if not causes:
        yield _last_resort(program, onset)
    yield from causes


def _last_resort(program: Program | None, onset: Onset | None) -> Cause:
    """The checkpoint has a name for each thing that such a program needs."""
    if program is not None and program.shuffles and (onset is None or onset.place == 0):
        told = f"the data is put into a random order: {', '.join(program.shuffles[:2])}"
        name = "the place in the data is not put back, although the checkpoint names one"
        return Cause(name, (told,), f"{_POSITION}; or save only where an epoch ends", 0)
    return Cause("something that the job uses is not in its checkpoint", _unsaved(program), _STATE, 0)


def _in_place(run: Bad) -> Iterator[Cause]:
    for hit in run.killed.hits:
        if hit.unsound:
            is_gone = any(resumed.is_destroyed for resumed in run.killed.resumed)
            gone = ("the one before had the same name, and is gone",) if is_gone else ()
            evidence = (f"after {hit.detail}: {'; '.join(hit.unsound[:3])}", *gone)
            yield Cause(
                "a checkpoint is saved in place: a kill in the middle leaves half of it", evidence, _IN_PLACE, 3
            )


def _out_of_order(resumed: Resumed) -> Iterator[Cause]:
    if not resumed.is_too_early or not not_sorted(resumed.there):
        return
    last = max(name for name in resumed.there if numbers_in(name))
    number = numbers_in(last)[-1]
    is_it = resumed.step is not None and abs(number - resumed.step) <= resumed.slack
    evidence = (
        f"sorted as text, {last} comes after {resumed.newest}, which is newer",
        f"it resumed from step {resumed.step}" + (f", which is {last}" if is_it else ""),
    )
    yield Cause(
        "the newest checkpoint by name is not the newest by step: numbers in names are not padded",
        evidence,
        'sort by the number, or write it with zeros in front: f"step_{step:08d}"',
        3 if is_it else 1,
    )


def _not_looked_for(resumed: Resumed, known: Known) -> Iterator[Cause]:
    if not resumed.is_from_zero or resumed.is_destroyed:
        return
    evidence = (f"it began at zero, although {resumed.newest} was whole",)
    remedy = (
        "have it look for its newest checkpoint when it starts; or, if it has an option for that, name it: "
        "--checkpoints GLOB --resume-arg '--resume {checkpoint}', or --resume-command"
        if known.way is Way.AGAIN
        else "use what it is given: --resume-arg, or the variable LASTGOOD_CHECKPOINT"
    )
    yield Cause("it does not resume from its checkpoint", evidence, remedy, 2)


def _of_contents(
    run: Bad, known: Known, contents: Contents | None, program: Program | None, onset: Onset | None, series: Series
) -> Iterator[Cause]:
    """What no checkpoint holds, and the program has."""
    names = _holds(contents) if contents is not None else ()
    is_at_once = onset is None or onset.place == 0
    unsaved = list(program.unsaved) if program is not None else []
    readable = contents is not None and contents.is_readable
    if readable and contents is not None:
        has_optimizer = program is None or program.uses_optimizer
        if has_optimizer and not contents.holds(OPTIMIZER):
            what = "weights only" if not contents.holds(RANDOM | POSITION) else "no optimizer state"
            certainty = 2 if program is not None else 1
            told = _made(unsaved, "optimizer")
            yield Cause(f"{what}: the optimizer is not in the checkpoint", (*told, *names), _STATE, certainty)
        draws = program.draws[:3] if program is not None else ()
        if is_at_once and not contents.holds(RANDOM) and (program is None or program.draws):
            told = (f"the program draws random numbers: {', '.join(draws)}",) if draws else ()
            told = _made(unsaved, "random generator") or told
            unsaved = [one for one in unsaved if one.kind != "random generator"]
            remedy = f"{_STATE}: random.getstate, numpy's bit_generator.state, torch.get_rng_state"
            yield Cause("no random state in the checkpoint", (*told, *names), remedy, 2 if draws else 1)
    again = repeated_stretch(series, run.series, run.killed.resumed[0].step if run.killed.resumed else None)
    shuffles = program.shuffles[:2] if program is not None else ()
    has_position = contents is not None and contents.holds(POSITION)
    if again or (readable and is_at_once and shuffles and not has_position and not known.is_with_library):
        told = (f"the data is put into a random order: {', '.join(shuffles)}",) if shuffles else ()
        evidence = (*((again,) if again else ()), *told, *names)
        is_certain = bool(again) or (contents is not None and contents.holds(RANDOM))
        yield Cause(
            "the data begins again: its position is not in the checkpoint", evidence, _POSITION, 2 if is_certain else 1
        )
    others = [one for one in unsaved if one.kind not in ("optimizer",)]
    if contents is not None and contents.holds(SCHEDULE):
        others = [one for one in others if one.kind != "schedule"]
    if contents is not None and contents.holds(RANDOM):
        others = [one for one in others if one.kind != "random generator"]
    for kind in dict.fromkeys(one.kind for one in others):
        yield Cause(f"a {kind} is not in the checkpoint", _made(others, kind), _STATE, 1)


def _appended(run: Bad) -> Iterator[Cause]:
    """A file to which the program appends has the lines of steps done again twice."""
    for part in run.killed.parts:
        first = part.comparison.first_beyond
        if part.differs and first is not None and "line" in f"{first.what} {first.reason}" and first.where:
            evidence = (str(first),)
            remedy = "cut the file back to the step that it resumes from, or write it anew at the end"
            yield Cause("a file that the program appends to may hold steps twice", evidence, remedy, 0)


def _pieces(run: Bad, known: Known, first: Shown, resumed_from: int | None) -> Pieces | None:
    if known.is_with_library:
        return pieces_of_jobs(first.place.job, run.shown.place.job, resumed_from or 0)
    return pieces_of_files(first, run.shown, known.units, resumed_from)


def _contents(known: Known, first: Shown) -> Contents | None:
    """Of the newest checkpoint that the undisturbed run has left."""
    for save in reversed(known.profile.saves):
        path = first.place.work / save.path
        if save.path and path.exists():
            return contents_of(path, save.path)
    return None


def _program(target: Target) -> Program | None:
    """The first Python file in the command."""
    for word in target.command:
        path = Path(target.directory, word.replace("{run}", str(target.directory)))
        if word.endswith(".py") and path.is_file() and path.stat().st_size <= _MOST_SOURCE_BYTES:
            return read_program(path.read_text(encoding="utf-8", errors="replace"), word)
    return None


def _holds(contents: Contents) -> tuple[str, ...]:
    # Names of parameters come last: what else there is tells more. A text with a space is a function that a pickle calls.
    words = [word for word in contents.words if " " not in word and word not in _PLUMBING]
    plain, dotted = [word for word in words if word.isidentifier()], [word for word in words if "." in word]
    names = [*plain, *dotted]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return (f"{contents.path} holds {', '.join(names[:_MOST_NAMES])}{more}",) if names else ()


def _made(unsaved: Sequence[Stateful], kind: str) -> tuple[str, ...]:
    told = [str(one) for one in unsaved if one.kind == kind]
    return (f"the program makes {', '.join(told)}, and gives it to nothing that saves",) if told else ()


def _unsaved(program: Program | None) -> tuple[str, ...]:
    return (
        ()
        if program is None
        else tuple(t for kind in dict.fromkeys(o.kind for o in program.unsaved) for t in _made(program.unsaved, kind))
    )
