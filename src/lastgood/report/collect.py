"""One job, or several, looked at: from journals, checkpoints and heartbeats to a report. Changes nothing."""

import time
from collections.abc import Sequence

import msgspec

from lastgood.core.accounting import Account, Record, account, with_ends_moved_inside
from lastgood.core.errors import LastgoodError
from lastgood.launch.history import ending_of
from lastgood.launch.standing import Standing, State, standing_of
from lastgood.report import figures, lines, saving, shelf
from lastgood.report.journals import read_journals
from lastgood.report.model import Checkpoint, FleetReport, NotRead, Outcome, Problem, Report
from lastgood.report.saving import Planned
from lastgood.report.textual import plain
from lastgood.report.timeline import Timeline, commits, timeline
from lastgood.store.jobdir import JobDirectory
from lastgood.store.survey import Surveyed


def report_on(
    job: JobDirectory, planned: Planned | None = None, *, is_verified: bool = False, now: float | None = None
) -> Report:
    """Look at a job. `is_verified`: read all of its checkpoints. Raises StorageError or PermissionDeniedError if its
    attempts or its checkpoints cannot be listed."""
    records, problems = read_journals(job)
    standing = standing_of(job, records)
    now = time.time() if now is None else now
    is_running = standing.state in (State.RUNNING, State.ORPHANED)
    good = standing.last_good
    records = with_ends_moved_inside(records)
    accounts = accounts_of(records, None if good is None else good.step, is_running=is_running)
    told = timeline(records, accounts, now, is_running=is_running)
    found, problem = _surveyed(job)
    resumed = shelf.resumed_from(records, [one for one, _ in found])
    checkpoints = _checkpoints(job, standing, records, found, resumed, now, is_verified=is_verified)
    attempts = lines.attempt_lines(records, accounts, told.courses, resumed)
    saves, failed = saving.saves_of(records), saving.failed_saves_of(records)
    shares = figures.shares(told.spans, _gpus(records))
    unsaved_s = _unsaved_s(records, accounts, told, now) if is_running else None
    reached = _reached(job, accounts, standing)
    return storable(
        Report(
            job=standing.job,
            id=standing.id,
            state=standing.state.value,
            why=standing.why,
            command=_command(records),
            made_at=now,
            began=told.courses[0].begin if told.courses else None,
            ended=told.courses[-1].end if told.courses and not is_running else None,
            reached_step=reached,
            last_good_step=None if good is None else good.step,
            total_steps=_total(standing, reached),
            lost_steps=sum(one.lost_steps for one in accounts),
            lost_s=sum(one.lost_s for one in accounts),
            unsaved_s=unsaved_s,
            ettr=figures.ettr(shares, _doubts(told, unsaved_s)),
            shares=shares,
            spans=told.spans,
            attempts=attempts,
            marks=lines.marks(records, accounts),
            outcomes=lines.outcomes(attempts, lines.until_steps(told.courses)),
            interval=saving.interval_of(records, told.courses, saves, planned),
            save_figures=saving.figures_of(saves, failed),
            saves=saves,
            failed_saves=failed,
            checkpoints=checkpoints,
            ranks=shelf.rank_figures(checkpoints),
            problems=[*problems, *problem, *(Problem(where="attempts", what=remark) for remark in told.remarks)],
            notes=_notes(records, checkpoints, standing),
        )
    )


def _surveyed(job: JobDirectory) -> tuple[list[tuple[Surveyed, str]], list[Problem]]:
    try:
        return shelf.survey_all(job), []
    except LastgoodError as error:
        return [], [Problem(where="checkpoints", what=f"{error.what}: there is nothing about them here")]


def accounts_of(records: list[Record], last_good_step: int | None, *, is_running: bool) -> list[Account]:
    """As `lastgood status` has them: with an outcome also where nobody wrote one down."""
    found = []
    for one, record in zip(account(records, last_good_step, is_running=is_running), records, strict=True):
        if not one.outcome and not (is_running and one.ended is None):
            ending = ending_of(one, record)
            one = msgspec.structs.replace(one, outcome=ending.outcome.value, reason=ending.reason)
        found.append(one)
    return found


def _checkpoints(
    job: JobDirectory,
    standing: Standing,
    records: Sequence[Record],
    found: list[tuple[Surveyed, str]],
    resumed: dict[int, str],
    now: float,
    *,
    is_verified: bool,
) -> list[Checkpoint]:
    listed = shelf.checkpoints_of(job, found, shelf.reads_of(records, resumed), now, is_verified=is_verified)
    wrapped = [record for record in records if record.is_wrapped and commits(record)]
    if standing.last_good is not None and wrapped and not any(one.is_last_good for one in listed):
        listed.insert(0, shelf.of_application(standing.last_good, wrapped[-1].number, now))
    return listed


def _gpus(records: Sequence[Record]) -> dict[int, int] | None:
    """Of each attempt; None unless all of them tell."""
    found = {record.number: lines.gpus_of(record) for record in records}
    known = {number: gpus for number, gpus in found.items() if gpus is not None}
    return known if known and len(known) == len(found) else None


def _command(records: Sequence[Record]) -> str:
    for record in reversed(records):
        launched = record.first("launched")
        words = launched.data.get("command") if launched is not None else None
        if isinstance(words, list):
            return " ".join(map(str, words))
    return ""


def _reached(job: JobDirectory, accounts: Sequence[Account], standing: Standing) -> int | None:
    """By the journals, and by what outlives them: a checkpoint, and the word that the job is finished."""
    steps = [one.reached_step for one in accounts if one.reached_step is not None]
    if standing.last_good is not None and (steps or standing.last_good.step):
        steps.append(standing.last_good.step)
    if standing.state is State.FINISHED and (finished := job.finished()) is not None:
        steps.append(finished.step)
    if standing.live is not None:
        steps.append(standing.live.step)
    return max(steps, default=None)


def _total(standing: Standing, reached: int | None) -> int | None:
    if standing.live is not None and standing.live.total_steps is not None:
        return standing.live.total_steps
    return reached if standing.state is State.FINISHED else None


def _unsaved_s(records: Sequence[Record], accounts: Sequence[Account], told: Timeline, now: float) -> float | None:
    if not told.courses or told.courses[-1].ready is None or accounts[-1].ended is not None:
        return None
    since = max((event.at for event in commits(records[-1])), default=told.courses[-1].ready)
    return max(now - since, 0.0)


def _doubts(told: Timeline, unsaved_s: float | None) -> list[str]:
    """The same doubt of many attempts is one line."""
    of: dict[str, list[int]] = {}
    for course in told.courses:
        for doubt in course.doubts:
            of.setdefault(doubt, []).append(course.number)
    said = []
    for doubt, numbers in of.items():
        who = f"attempt {numbers[0]}" if len(numbers) == 1 else f"each of {len(numbers)} attempts, from {numbers[0]} on"
        said.append(f"{who}: {doubt}")
    if unsaved_s:
        said.append("the job runs: what it has done since its last checkpoint counts as useful, and is not saved yet")
    return said


def _notes(records: Sequence[Record], checkpoints: Sequence[Checkpoint], standing: Standing) -> list[str]:
    notes = []
    if not records:
        notes.append(
            "no attempt has been made: there is nothing to account for yet"
            if standing.state is State.NEW
            else "no attempt is written down any more: there is nothing to account for"
        )
    elif not any(record.first("started") is not None for record in records):
        notes.append("no attempt tells of steps or checkpoints: the program does not use lastgood, and --app, "
                     "--checkpoints or --resume-arg was not given")  # fmt: skip
    elif not any(commits(record) for record in records) and standing.state is not State.RUNNING:
        notes.append("no attempt has saved anything: each start is from zero")
    if any(record.is_wrapped and commits(record) for record in records):
        notes.append("of checkpoints that an application writes itself the newest is looked for every 15 s: saves in "
                     "between are not counted, and a time is when one was seen")  # fmt: skip
    stored = [one for one in checkpoints if one.state != "seen"]
    if stored and all(one.verified == "no" for one in stored):
        notes.append("no checkpoint was verified: this report reads their manifests only (--verify reads all of them)")
    return notes


def storable(report: Report) -> Report:
    """With names of files that are no text written as escapes, so that it can be shown and kept."""
    try:
        msgspec.json.encode(report)
    except UnicodeEncodeError:
        return msgspec.convert(_escaped(msgspec.to_builtins(report)), Report)
    return report


def _escaped(value: object) -> object:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return {name: _escaped(one) for name, one in value.items()} if isinstance(value, dict) else value


def with_copies_noted(reports: Sequence[Report]) -> list[Report]:
    """Of jobs with one id, from different places: all are of the same work."""
    places: dict[str, list[str]] = {}
    for report in reports:
        places.setdefault(report.id, []).append(report.job)
    noted = []
    for report in reports:
        others = [place for place in places[report.id] if place != report.job]
        copy = (
            [f"it has the same id as {', '.join(others)}: what is in both counts twice in the sums"] if others else []
        )
        noted.append(msgspec.structs.replace(report, notes=[*report.notes, *copy]))
    return noted


def fleet_of(reports: Sequence[Report], not_read: Sequence[NotRead], now: float) -> FleetReport:
    """Several jobs as one."""
    shares = figures.added([report.shares for report in reports])
    doubts = [f"{report.job}: {doubt}" for report in reports if report.ettr for doubt in report.ettr.doubts]
    merged: dict[str, list[Outcome]] = {}
    for report in reports:
        for outcome in report.outcomes:
            merged.setdefault(outcome.outcome, []).append(outcome)
    return FleetReport(
        made_at=now,
        jobs=list(reports),
        not_read=list(not_read),
        ettr=figures.ettr(shares, doubts),
        shares=shares,
        outcomes=sorted((_added(several) for several in merged.values()), key=lambda one: -one.attempts),
    )


def _added(several: Sequence[Outcome]) -> Outcome:
    timed = [one for one in several if one.mean_restart_s is not None]
    weight = sum(one.attempts for one in timed)
    mean = sum((one.mean_restart_s or 0.0) * one.attempts for one in timed) / weight if weight else None
    return Outcome(
        outcome=several[0].outcome,
        attempts=sum(one.attempts for one in several),
        lost_steps=sum(one.lost_steps for one in several),
        lost_s=sum(one.lost_s for one in several),
        mean_restart_s=mean,
    )


def not_read(job: str, error: LastgoodError) -> NotRead:
    """`job` as it was named, which need not be text."""
    return NotRead(job=plain(job), error=plain(error.what), remedy=plain(error.remedy))
