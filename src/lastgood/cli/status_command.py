"""`lastgood status`: what a job is doing, and what its attempts did."""

import argparse
import time
from typing import TYPE_CHECKING

from lastgood.cli import arguments

if TYPE_CHECKING:
    from lastgood.cli.answers import StatusAnswer, StatusAttempt, StatusStaged
    from lastgood.launch.standing import Standing
    from lastgood.store.jobdir import JobDirectory

EXIT_GIVEN_UP = 1
EXIT_UNFINISHED = 75

_MAX_LISTED = 30

_LATE_AFTER_INTERVALS = 2
"""A save is due after one interval, and has another to be written in."""


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_job(parser)
    parser.add_argument("--all", action="store_true", help=f"list every attempt, not only the last {_MAX_LISTED}")
    parser.epilog = """\
examples:
  lastgood status runs/exp1
  lastgood status 4711

The exit code answers: 0 running or finished; 75 neither (run it again); 1 given up, or refused;
66 no job there. LOST counts the steps that had to be done again, and the time spent on
them; "?" where nobody saw the last step. OUTCOME is cut to two lines; --json has all of it.
"""


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.jobs import open_named, slurm_number
    from lastgood.launch.standing import State, standing_of

    job = open_named(parsed.job)
    standing = standing_of(job)
    answer = _answer(standing, _staged(job), _by_slurm(slurm_number(parsed.job)), time.time())
    if parsed.json:
        output.put_json(answer)
    else:
        output.put(_text(answer, is_all=parsed.all))
    if standing.state in (State.RUNNING, State.ORPHANED, State.FINISHED):
        return 0
    return EXIT_GIVEN_UP if standing.state is State.GIVEN_UP else EXIT_UNFINISHED


def _staged(job: "JobDirectory") -> "list[StatusStaged]":
    """What is on this node only, newest first. A stage that cannot be read is passed over."""
    from contextlib import suppress

    from lastgood.cli import output
    from lastgood.cli.answers import StatusStaged
    from lastgood.core.errors import LastgoodError
    from lastgood.store.staging import find_stages

    found = []
    for stage in find_stages(job):
        with suppress(OSError, LastgoodError):
            found += [StatusStaged(c.name, c.step, output.plain(str(stage.path))) for c in stage.pending()]
    return found


def _by_slurm(number: str) -> str:
    """What Slurm says of the job of this number. Asked only where a number was given: it may take seconds."""
    if not number:
        return ""
    import os

    from lastgood.core.errors import NoSuchJobError, SchedulerError
    from lastgood.schedulers.slurm_commands import SlurmCommands
    from lastgood.schedulers.slurm_text import value_of

    try:
        job = SlurmCommands(os.environ).show_job(number)
    except NoSuchJobError:
        return f"job {number} has ended a while ago; `lastgood history {number}` asks the accounting"
    except SchedulerError as error:
        return error.what
    reason = value_of(job, "Reason")
    restarts = job.get("Restarts", "0")
    return (
        f"job {number} is {job.get('JobState', 'in no state')}"
        + (f" ({reason})" if reason else "")
        + (f", requeued {restarts} time(s)" if restarts != "0" else "")
    )


def _answer(standing: "Standing", staged: "list[StatusStaged]", slurm: str, now: float) -> "StatusAnswer":
    from lastgood.cli import output
    from lastgood.cli.answers import StatusAnswer, StatusAttempt, StatusLastGood, StatusLive

    good, live = standing.last_good, standing.live
    return StatusAnswer(
        job=output.plain(standing.job),
        id=standing.id,
        state=standing.state.value,
        why=output.plain(standing.why),
        pid=standing.pid,
        host=standing.host,
        live=StatusLive(live.step, live.total_steps, live.steps_per_s, live.silent_s, live.phase) if live else None,
        last_good=StatusLastGood(good.name, good.step, good.at, max(now - good.at, 0.0), good.size_bytes)
        if good
        else None,
        staged=staged,
        attempts=[
            StatusAttempt(
                attempt=a.number,
                began=a.began,
                ended=a.ended,
                how=a.how,
                outcome=a.outcome,
                reason=output.plain(a.reason),
                from_step=a.from_step,
                reached_step=a.reached_step,
                saved_step=a.saved_step,
                steps_done=a.steps_done,
                lost_steps=a.lost_steps,
                lost_s=a.lost_s,
                is_loss_known=a.is_loss_known,
                is_inner=a.is_inner,
            )
            for a in standing.attempts
        ],
        lost_steps=standing.lost_steps,
        lost_s=standing.lost_s,
        standby=output.plain(standing.standby),
        interval_s=standing.interval_s,
        snapshots=output.plain(standing.snapshots),
        restarts_left=standing.restarts_left,
        slurm=output.plain(slurm),
    )


def _text(answer: "StatusAnswer", *, is_all: bool) -> str:
    from lastgood.cli import output

    facts = [("job", f"{answer.job} (id {answer.id})"), ("state", f"{answer.state}: {answer.why}")]
    if answer.slurm:
        facts.append(("slurm", answer.slurm))
    facts += _live_facts(answer)
    facts.append(("last good", _last_good(answer)))
    facts += [("staged", f"step {s.step} is on this node only, in {s.stage}") for s in answer.staged]
    if answer.attempts:
        facts.append(("lost", _lost_in_all(answer)))
    if answer.snapshots:
        facts.append(("snapshots", answer.snapshots))
    if answer.standby:
        facts.append(("standby", answer.standby))
    if answer.restarts_left is not None:
        facts.append(("restarts", f"{answer.restarts_left} left"))
    lines = []
    for label, text in facts:
        first, *others = output.wrap(text, output.WIDTH - 11)
        lines += [f"{label:<9}  {first}", *(" " * 11 + other for other in others)]
    shown = answer.attempts if is_all else answer.attempts[-_MAX_LISTED:]
    if shown:
        lines += ["", _table(shown)]
    if len(shown) < len(answer.attempts):
        lines.append(f"({len(answer.attempts) - len(shown)} earlier attempts: --all)")
    return "\n".join(lines)


def _live_facts(answer: "StatusAnswer") -> list[tuple[str, str]]:
    from lastgood.core.heartbeat import TOLD
    from lastgood.core.progress import progress_line
    from lastgood.core.units import duration

    facts = []
    if answer.state.startswith("running") and answer.attempts:
        began = answer.attempts[-1].began
        facts.append(("since", f"{_when(began)}, for {duration(time.time() - began)}"))
    live, good = answer.live, answer.last_good
    if live is not None:
        line = progress_line(
            live.step,
            live.total_steps,
            live.steps_per_s,
            good.step if good else None,
            good.age_s if good else None,
            69,
        )
        facts.append(("progress", line))
        if live.phase == TOLD:
            facts.append(("told", f"{duration(live.silent_s)} ago, by its own words: it sends no heartbeat"))
        else:
            facts.append(("heartbeat", f'{duration(live.silent_s)} ago, in phase "{live.phase}"'))
    return facts


def _last_good(answer: "StatusAnswer") -> str:
    from lastgood.core.units import byte_size, duration

    good = answer.last_good
    if good is None:
        return "no checkpoint"
    size = "" if good.bytes is None else f", {byte_size(good.bytes)}"
    text = f"step {good.step}{size}, {duration(good.age_s)} old ({good.name})"
    if answer.interval_s is None:
        return text
    is_late = good.age_s > _LATE_AFTER_INTERVALS * answer.interval_s
    return f"{text}, {'LATE: ' if is_late else ''}a save is due every {duration(answer.interval_s)}"


def _table(attempts: "list[StatusAttempt]") -> str:
    from lastgood.cli import output
    from lastgood.core.units import duration

    rows = [
        (
            str(a.attempt),
            _when(a.began)[5:],
            "-" if a.ended is None else duration(max(a.ended - a.began, 0.0)),
            _number(a.from_step),
            _number(a.reached_step),
            _lost_by(a),
            _outcome(a),
        )
        for a in attempts
    ]
    return output.table(
        ["#", "BEGAN (UTC)", "TOOK", "FROM", "TO", "LOST", "OUTCOME"], rows, right=[0, 2, 3, 4], most_lines=2
    )


def _outcome(a: "StatusAttempt") -> str:
    if not a.outcome:
        return "running"
    if a.outcome == "finished" or a.outcome in a.reason or not a.reason:
        return a.outcome if a.outcome not in a.reason else a.reason
    return f"{a.outcome}: {a.reason}"


def _lost_by(a: "StatusAttempt") -> str:
    if a.is_loss_known:
        return _lost(a.lost_steps, a.lost_s) or "-"
    return _lost(a.lost_steps, a.lost_s, more="+") or "?"


def _lost_in_all(answer: "StatusAnswer") -> str:
    unseen = [str(a.attempt) for a in answer.attempts if not a.is_loss_known]
    known = _lost(answer.lost_steps, answer.lost_s)
    if not unseen:
        return known or "nothing"
    which = f"attempt {unseen[0]}" if len(unseen) == 1 else f"{len(unseen)} attempts"
    return f"{known + ', and more: ' if known else ''}unknown how much by {which} (?), whose last step nobody saw"


def _lost(steps: int, seconds: float, more: str = "") -> str:
    from lastgood.core.units import duration

    return f"{steps}{more} steps, {duration(seconds)}" if steps else ""


def _number(step: int | None) -> str:
    return "-" if step is None else str(step)


def _when(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
