"""What a killed run resumed from, and what it could have resumed from. Pure."""

from collections.abc import Sequence

import msgspec

from lastgood.core.accounting import Record
from lastgood.core.events import Event
from lastgood.core.numbering import kind_of, numbers_in
from lastgood.prove.checkpoint_files import Units, saves_of
from lastgood.prove.killing import Hit
from lastgood.prove.output_lines import attempts_of, steps_in
from lastgood.prove.plan_of_kills import Profile, Save, print_every
from lastgood.prove.shown import Shown
from lastgood.trial.target import Way


class Resumed(msgspec.Struct, frozen=True):
    """What followed one kill."""

    killed_at: int | None
    """The newest step that was seen to be done before."""
    step: int | None
    """After which it went on; None if that cannot be seen."""
    newest_step: int | None
    """Of the newest checkpoint that was complete before the kill; None if there was none, or if its step is not known."""
    newest: str = ""
    """Its name; empty if there was none."""
    slack: int = 0
    """How far `step` and `newest_step` may be apart by the way in which they are seen."""
    refused: str = ""
    """Why the start was refused."""
    used: str = ""
    """The checkpoint from which it resumed, as far as its name is known."""
    there: tuple[str, ...] = ()
    """Names of the whole checkpoints that were there, in order of time, where the command writes its own."""
    is_destroyed: bool = False
    """The kill has left that newest checkpoint unusable."""
    newest_at: float | None = None
    """When that newest checkpoint was written, in seconds since 1970; None if there was none."""
    has_skipped: bool = False
    """It went on after a step that, by its output, had not been done."""

    @property
    def is_from_zero(self) -> bool:
        """It began anew although there was a checkpoint."""
        return self.step is not None and self.step <= 0 and bool(self.newest) and (self.newest_step or 0) > 0

    @property
    def is_too_early(self) -> bool:
        """It has done steps again that a whole checkpoint holds."""
        if self.step is None or self.newest_step is None or self.is_from_zero or self.is_destroyed:
            return False
        return self.step + self.slack < self.newest_step


def resumed_after(
    shown: Shown, hit: Hit, units: Units, profile: Profile, step_pattern: str, inner_pattern: str = ""
) -> Resumed:
    """What followed a kill that hit. `profile` is the undisturbed run's; `inner_pattern` finds steps that begin anew within
    each."""
    if shown.way is Way.LASTGOOD:
        of_journal = _by_journal(shown.records, hit)
        if shown.is_with_library or not step_pattern:
            return of_journal
        told = _by_output(shown, hit, units, profile, step_pattern, inner_pattern)
        return msgspec.structs.replace(
            of_journal,
            step=told.step if told.step is not None else of_journal.step,
            slack=told.slack,
            killed_at=told.killed_at,
        )
    return _by_output(shown, hit, units, profile, step_pattern, inner_pattern)


def _by_journal(records: Sequence[Record], hit: Hit) -> Resumed:
    after = [record for record in records if record.number > hit.attempt]
    started = next((event for record in after if (event := record.first("started")) is not None), None)
    refused = next((event for record in after if (event := record.first("refused")) is not None), None)
    until = started.at if started is not None else float("inf")
    # The keeper may commit the newest snapshot after the death of the job.
    commits = [e for r in records for e in r.events if e.kind == "committed" and e.at <= until and _step(e) is not None]
    newest = max(commits, key=lambda event: (_step(event) or 0, event.at), default=None)
    killed = next((record for record in records if record.number == hit.attempt), None)
    ended = killed.last("ended") if killed is not None else None
    return Resumed(
        killed_at=_step(ended) if _step(ended) is not None else hit.step,
        step=_step(started),
        newest_step=_step(newest),
        newest=str(newest.data.get("name", "")) if newest is not None else "",
        newest_at=newest.at if newest is not None else None,
        refused=str(refused.data.get("reason", "")) if refused is not None and started is None else "",
        used=str(started.data.get("name", "")) if started is not None else "",
    )


def _by_output(
    shown: Shown, hit: Hit, units: Units, profile: Profile, step_pattern: str, inner_pattern: str
) -> Resumed:
    parts = attempts_of([(line.start, line.text) for line in shown.lines])
    steps = [steps_in(part, step_pattern) for part in parts]
    before = steps[hit.attempt - 1] if hit.attempt <= len(steps) else []
    after = steps[hit.attempt] if hit.attempt < len(steps) else []
    every = max(print_every(steps[0]) if steps else 1, 1)
    written = [one for one in shown.written if one.at <= hit.at]
    saves = saves_of(written, units, shown.began)
    broken = {units.unit_of(text.partition(": ")[0]) for text in hit.unsound}
    whole = [save for save in saves if save.path not in broken]
    newest, is_destroyed = _newest(_surest(whole, units), saves)
    if not after and (before_it := _by_next_save(shown, hit, units, profile)) is not None:
        return Resumed(
            killed_at=hit.step,
            step=_number_of(before_it),
            newest_step=_number_of(newest.path) if newest is not None else None,
            newest=newest.path if newest is not None else "",
            used=before_it,
            there=tuple(save.path for save in whole),
            is_destroyed=is_destroyed,
        )
    killed_at = max(before, default=hit.step)
    # The first line may be a header that names the last step.
    step = None if not after else max(min(after[:2]) - min(_first(profile), every), 0)
    if step is not None and _is_inside(parts[hit.attempt], parts[0], inner_pattern):
        step += 1
    return Resumed(
        killed_at=killed_at,
        step=step,
        newest_step=newest.step if newest is not None else None,
        newest=newest.path if newest is not None else "",
        newest_at=shown.began + newest.at_s if newest is not None else None,
        slack=every + 1,
        there=tuple(save.path for save in whole),
        is_destroyed=is_destroyed,
        has_skipped=step is not None and killed_at is not None and step > killed_at + every,
    )


def _is_inside(part: Sequence[str], first: Sequence[str], inner_pattern: str) -> bool:
    """It went on in the middle of a step: later in it than where the first one began."""
    inner, begin = steps_in(part, inner_pattern), steps_in(first, inner_pattern)
    return bool(inner and begin) and inner[0] > begin[0]


def _by_next_save(shown: Shown, hit: Hit, units: Units, profile: Profile) -> str | None:
    """Where no line tells a step: the checkpoint that the undisturbed run wrote before the one that is written first after
    the resume; empty for the very first. None if their names do not tell."""
    names = [save.path for save in profile.saves]
    if len({*names}) < len(names) or not all(numbers_in(name) for name in names):
        return None
    started = [one for one in shown.written if one.since > hit.at]
    first = next((save.path for save in saves_of(started, units, shown.began)), None)
    if first not in names:
        return None
    place = names.index(first)
    return names[place - 1] if place else ""


def _number_of(path: str) -> int:
    return max(numbers_in(path)[-1:], default=0)


def _surest(whole: Sequence[Save], units: Units) -> list[Save]:
    """Where it is guessed what is a checkpoint, and several kinds of files may be: of their newest ones the oldest comes
    last. Whoever resumes from that one may not be blamed for another that is newer."""
    if not units.is_guessed:
        return list(whole)
    newest = {kind_of(save.path): save for save in whole}
    return sorted(newest.values(), key=lambda save: -save.at_s)


def _newest(whole: Sequence[Save], saves: Sequence[Save]) -> tuple[Save | None, bool]:
    """The newest checkpoint that was complete before the kill, and whether the kill has destroyed it: one that is written
    over and over under its only name."""
    if whole:
        return whole[-1], False
    return (saves[-2], True) if len(saves) > 1 and saves[-2].path == saves[-1].path else (None, False)


def _first(profile: Profile) -> int:
    return profile.first_step if profile.first_step is not None else 1


def _step(event: Event | None) -> int | None:
    step = event.data.get("step") if event is not None else None
    return step if isinstance(step, int) and not isinstance(step, bool) else None
