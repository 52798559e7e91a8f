"""A proof from its beginning to its answer: two undisturbed runs, then some that are killed and resume."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.signals import signal_name
from lastgood.core.units import duration
from lastgood.prove.asked import CHECK_THE_PATTERN, asked_in_vain, estimates_in_vain
from lastgood.prove.at_write import Aim
from lastgood.prove.causes import Cause
from lastgood.prove.comparing import (
    Pair,
    Wanted,
    compare_resumed,
    compare_undisturbed,
    only_there,
    redone_otherwise,
    series_of,
    statistical_parts,
)
from lastgood.prove.conduct import Saying, disturbed, undisturbed
from lastgood.prove.difference import EXACT, Tolerance
from lastgood.prove.output_lines import check_patterns
from lastgood.prove.plan_of_kills import MOST_KILLS, Kill, Phase, Profile, earlier, plan, startup_s
from lastgood.prove.profiling import Known, application_of, learn, without_checkpoint
from lastgood.prove.resuming import resumed_after
from lastgood.prove.shown import Shown, told_names
from lastgood.prove.verdict import Answer, Killed, Verdict, judge
from lastgood.prove.why import Bad, diagnose, diagnose_itself
from lastgood.trial.place import make_place
from lastgood.trial.target import Target, Way, step_finder

FIRST, SECOND = "undisturbed-1", "undisturbed-2"


class Request(msgspec.Struct, frozen=True):
    target: Target
    root: Path
    """Where the runs work; each in a directory of its own."""
    way: Way | None = None
    """How the killed command is started again; None: by what the first run shows."""
    kills: int = 2
    """How many runs are killed."""
    seed: int = 0
    values: dict[str, str] = {}
    """Patterns of values in the output, by name."""
    files: tuple[str, ...] = ()
    tolerance: Tolerance = EXACT
    statistical: tuple[tuple[str, str], ...] = ()
    bound: float = 3.0


class Proof(msgspec.Struct, frozen=True):
    """All that a proof has found."""

    verdict: Verdict
    known: Known | None
    """None if the command did not come to its end undisturbed."""
    pair: Pair | None
    undisturbed: tuple[Shown, ...]
    shown: tuple[Shown, ...]
    """The runs that were killed."""
    killed: tuple[Killed, ...]
    notes: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    """Why it may be, where the answer is no; the most certain first."""


def prove(request: Request, say: Saying, tell: Callable[[str], None]) -> Proof:
    """Find out whether the command gives the same answer after it was killed. `say` hears of every look at a run, `tell` of
    what is done. Raises UsageError for a request that cannot be carried out; nothing was started then."""
    _check(request)
    target = msgspec.structs.replace(
        request.target, environment={"PYTHONUNBUFFERED": "1", **request.target.environment}
    )
    first = undisturbed(target, make_place(request.root, FIRST, target), request.way or Way.LASTGOOD, say)
    if not first.is_finished:
        return Proof(Verdict(Answer.UNKNOWN, _no_end(first, target)), None, None, (first,), (), ())
    known = learn(first, target, request.way, request.values)
    tell(f"{FIRST}: {_told(known)}")
    if why := without_checkpoint(known, target):
        return Proof(Verdict(Answer.UNKNOWN, why), known, None, (first,), (), (), causes=(_NEVER_SAVES,))
    library = known.is_with_library
    why = asked_in_vain(first, request.files, request.values, target.step_pattern, is_with_library=library)
    if why := why or estimates_in_vain(series_of(first, known), request.statistical):
        return Proof(Verdict(Answer.UNKNOWN, why), known, None, (first,), (), (), causes=(CHECK_THE_PATTERN,))
    target = msgspec.structs.replace(target, step_pattern=known.finders.step)
    second = undisturbed(target, make_place(request.root, SECOND, target), known.way, say)
    if not second.is_finished:
        return Proof(Verdict(Answer.UNKNOWN, _no_end(second, target)), known, None, (first, second), (), ())
    app = application_of(target)
    wanted = Wanted(
        known, request.tolerance, request.files, request.statistical, request.bound, app, tuple(target.command)
    )
    pair = compare_undisturbed(first, second, wanted)
    tell(f"{SECOND}: {_told_pair(pair)}")
    shown, killed, notes = [], [], [*known.notes, *pair.notes]
    for number, kills in enumerate(plan(known.profile, request.kills, request.seed), 1):
        run, missed = _disturbed(request.root, f"killed-{number}", target, known, kills, say)
        notes += missed
        shown.append(run)
        killed.append(_judged_by(run, (first, second), wanted, pair, target))
        tell(f"{run.name}: {_told_killed(killed[-1])}")
        if names := only_there(run, (first, second), known) if run.is_finished else ():
            notes.append(f"{run.name}: it has written {told_names(names)}, which no undisturbed run has")
        # Of a job with other random numbers each time that is no contradiction.
        if not request.statistical and (said := redone_otherwise(run, known, request.tolerance)):
            notes.append(f"{run.name}: {said}")
    killed = _with_estimates(first, shown, killed, wanted, pair.last_step)
    verdict = _with_left_out(judge(pair.parts, killed), pair)
    return Proof(
        verdict,
        known,
        pair,
        (first, second),
        tuple(shown),
        tuple(killed),
        tuple(notes),
        _causes(verdict, known, target, (first, second), shown, killed),
    )


def _with_left_out(verdict: Verdict, pair: Pair) -> Verdict:
    """A yes says what it does not speak of."""
    if not pair.left_out or verdict.answer not in (Answer.IDENTICAL, Answer.WITHIN):
        return verdict
    return msgspec.structs.replace(verdict, reason=f"{verdict.reason}; not compared: {told_names(pair.left_out)}")


_NEVER_SAVES = Cause(
    "no checkpoint was seen before its end",
    (),
    "have it save now and then; if it does, in files of another kind, name them: --again --checkpoints GLOB; if it writes "
    "outside of its directory, give it the place: {run} in the command stands for it",
)
_TOO_FAST = Cause(
    "it ends, or goes on, faster than a kill can be placed",
    (),
    "prove a longer run, with more work between two checkpoints: seconds rather than milliseconds",
)
_NOTHING_TO_COMPARE = Cause(
    "nothing that it leaves or prints could be compared",
    (),
    "have it print its values with the step, or write them to a file; or name them: --value NAME=REGEX, --file GLOB",
)
_NEEDS_A_CAUSE = (Answer.DIVERGED, Answer.LOST_WORK, Answer.DID_NOT_RESUME)


def _causes(
    verdict: Verdict,
    known: Known,
    target: Target,
    undisturbed: tuple[Shown, Shown],
    shown: Sequence[Shown],
    killed: Sequence[Killed],
) -> tuple[Cause, ...]:
    bad = [
        Bad(run, told, judged, series_of(run, known))
        for run, told, judged in zip(shown, killed, verdict.runs, strict=True)
        if judged.answer in _NEEDS_A_CAUSE
    ]
    if verdict.answer is Answer.UNKNOWN and any(not hit.is_hit for run in shown for hit in run.hits):
        return (_TOO_FAST,)
    if verdict.answer is Answer.UNKNOWN and not any(part.comparison.compared for run in killed for part in run.parts):
        return (_NOTHING_TO_COMPARE,) if any(run.is_finished for run in shown) else ()
    if verdict.answer is Answer.NOT_DETERMINISTIC:
        return diagnose_itself(target, *undisturbed)
    first = undisturbed[0]
    return diagnose(known, target, first, series_of(first, known), bad) if bad else ()


def _check(request: Request) -> None:
    step_finder(request.target.step_pattern)
    check_patterns(request.values)
    if not 1 <= request.kills <= MOST_KILLS:
        raise UsageError(f"--kills {request.kills}: give 1 to {MOST_KILLS}")


def _disturbed(
    root: Path, name: str, target: Target, known: Known, kills: Sequence[Kill], say: Saying
) -> tuple[Shown, list[str]]:
    """A run that is killed. Where a kill misses it is done again: with another aim, when the save is due, and at last as
    early as it can tell something."""
    tries: list[tuple[Sequence[Kill], Aim | None]] = [(kills, None), (earlier(known.profile), None)]
    if kills[0].phase is Phase.SAVE:
        tries = [*((kills, aim) for aim in known.aims), *tries]
    notes = []
    for number, (these, aim) in enumerate(tries, 1):
        place = make_place(root, name if number == 1 else f"{name}-{number}", target)
        last = known.profile.last_step
        run = disturbed(target, place, known.way, these, known.units, aim, last, say)
        missed = next((hit for hit in run.hits if not hit.is_hit), None)
        if missed is None or number == len(tries):
            break
        what = missed.detail
        if aim is not None:
            what = "it renamed no file" if aim.is_at_rename else f"it did not write to {aim.paths[0]} itself"
        notes.append(f"{place.name}: {what}; done again in another way")
    return run, notes


def _judged_by(run: Shown, undisturbed: tuple[Shown, Shown], wanted: Wanted, pair: Pair, target: Target) -> Killed:
    hits = [hit for hit in run.hits if hit.is_hit]
    known = wanted.known
    finders = known.finders
    resumed = [resumed_after(run, hit, known.units, known.profile, finders.step, finders.inner) for hit in hits]
    return Killed(
        name=run.name,
        hits=tuple(run.hits),
        resumed=tuple(resumed),
        exit_code=run.exit_code,
        limit_s=target.limit_s,
        last_word=run.last_word(),
        parts=compare_resumed(undisturbed[0], run, wanted, pair) if run.is_finished else (),
        began=run.began,
        took_s=run.duration_s,
        # The first read everything from disk, and may have run in another way.
        undisturbed_s=undisturbed[1].duration_s,
        startup_s=max(startup_s(known.profile) + undisturbed[1].duration_s - undisturbed[0].duration_s, 0.0),
    )


def _with_estimates(
    first: Shown, shown: Sequence[Shown], killed: Sequence[Killed], wanted: Wanted, last_step: int | None
) -> list[Killed]:
    """All runs together are known better than each alone."""
    finished = [run for run in shown if run.is_finished]
    of_runs = statistical_parts(first, finished, wanted, last_step)
    parts = dict(zip((run.name for run in finished), of_runs, strict=False))
    return [
        msgspec.structs.replace(one, parts=(*one.parts, parts[one.name])) if one.name in parts else one
        for one in killed
    ]


def _no_end(shown: Shown, target: Target) -> str:
    words = f": {last}" if (last := shown.last_word()) else ""
    if shown.exit_code is None:
        return f"undisturbed, it did not end within the limit of {duration(target.limit_s)}"
    code = signal_name(-shown.exit_code) if shown.exit_code < 0 else f"exit code {shown.exit_code}"
    return f"undisturbed, it ends with {code}{words}"


def _told(known: Known) -> str:
    profile = known.profile
    steps = f"{profile.last_step:,} steps, " if profile.last_step is not None else ""
    return f"{steps}{_checkpoints(profile)}, {duration(profile.duration_s)}; resumes by {known.way_reason}"


def _checkpoints(profile: Profile) -> str:
    return f"{len(profile.saves):,} checkpoint{'' if len(profile.saves) == 1 else 's'}"


def _told_pair(pair: Pair) -> str:
    differing = [part for part in pair.parts if part.differs]
    return "differs from the first: not deterministic in itself" if differing else "as the first"


def _told_killed(killed: Killed) -> str:
    if not killed.resumed:
        return killed.hits[-1].detail if killed.hits else "not killed"
    one = killed.resumed[-1]
    at = "killed" if one.killed_at is None else f"killed at step {one.killed_at}"
    after = "" if one.step is None else f", resumed from {one.step}"
    return f"{at}{after}, exit code {killed.exit_code}"
