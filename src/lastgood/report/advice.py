"""What somebody should do about a job, from its report: most urgent first, each with its reason. Pure."""

from typing import Literal

import msgspec

from lastgood.core.outcome import Outcome
from lastgood.core.quoting import shown
from lastgood.core.units import duration
from lastgood.report.model import Checkpoint, Report
from lastgood.report.saving import count_failed

Urgency = Literal["now", "soon"]

_LATE_AFTER_INTERVALS = 2
_FAR_FROM_PLAN = 2.0
_NEEDS_A_CHANGE = {
    Outcome.OUT_OF_MEMORY.value: "It needs more memory, or less of it per rank: another start ends the same way.",
    Outcome.PROGRAM_ERROR.value: "Mend the program, or its input, before it is started again.",
    Outcome.REFUSED.value: "It was refused on purpose: see to what the message says before it is started again.",
    Outcome.STORAGE_ERROR.value: "See to the storage (space, quota, mount) before it is started again.",
}


class Advice(msgspec.Struct, frozen=True):
    urgency: Urgency
    text: str
    command: str = ""
    """What to type; empty if there is nothing to type."""


def advice_on(report: Report) -> list[Advice]:
    """Empty if nothing is to be done."""
    said = [*_on_state(report), *_on_checkpoints(report), *_on_saves(report), *_on_interval(report)]
    return sorted(said, key=lambda one: one.urgency != "now")


def _on_state(report: Report) -> list[Advice]:
    last = report.attempts[-1] if report.attempts else None
    again = f"It goes on after step {report.last_good_step:,}." if report.last_good_step is not None else ""
    if report.state == "given up":
        change = _NEEDS_A_CHANGE.get(last.outcome if last else "", "Find the cause before it is started again.")
        return [Advice("now", f"It was given up. {change} {again}".strip())]
    if report.state == "stopped, unfinished":
        return [Advice("now", f"It has stopped before its end: give the same command again. {again}".strip())]
    if report.state == "running without its launcher":
        return [Advice("now", "Its launcher is gone: nobody will restart it when it fails.", _status(report))]
    return []


def _on_checkpoints(report: Report) -> list[Advice]:
    bad = [
        one
        for one in report.checkpoints
        if one.state in ("damaged", "unreadable", "rejected") or one.verified == "failed"
    ]
    said = []
    if bad:
        names = ", ".join(one.name for one in bad[:3]) + (f" and {len(bad) - 3} more" if len(bad) > 3 else "")
        said.append(
            Advice(
                "soon",
                f"Not good: {names}. A start passes over {'it' if len(bad) == 1 else 'them'}; find out what did the damage.",
                _verify(report),
            )
        )
    if (
        report.reached_step
        and not any(one.state == "good" for one in report.checkpoints)
        and report.state != "finished"
    ):
        said.append(Advice("now", "There is no good checkpoint: a failure now loses all that was done."))
    if (newest := last_good_of(report)) is not None and newest.stage:
        said.append(Advice("soon", "The newest good checkpoint is on one node only: it is lost with the node."))
    return said


def _on_saves(report: Report) -> list[Advice]:
    said = []
    newest = max((save.at for save in report.saves), default=None)
    failed = [one for one in report.failed_saves if newest is None or one.at > newest]
    if failed and report.state != "finished":
        count = count_failed(failed)
        which = "The last save" if count == 1 else f"The last {count} saves"
        said.append(Advice("now", f"{which} failed: {failed[-1].error}"))
    planned = report.interval.said[-1].interval_s if report.interval.said else None
    last = report.attempts[-1] if report.attempts else None
    if report.is_running and newest is not None and planned and last is not None and last.ended is None:
        # What an attempt before has saved is older by the time in a queue.
        since_s = report.made_at - max(newest, last.first_step_at or last.began)
        if since_s > _LATE_AFTER_INTERVALS * planned:
            text = f"A save is late: there was none for {duration(since_s)}, and one is due every {duration(planned)}."
            said.append(Advice("now", text))
    return said


def _on_interval(report: Report) -> list[Advice]:
    used, planned = report.interval.median_used_s, report.interval.planned_s
    if not used or not planned or report.state == "finished":
        return []
    factor = used / planned
    if 1 / _FAR_FROM_PLAN <= factor <= _FAR_FROM_PLAN:
        return []
    than = "less" if factor > 1 else "more"
    text = f"It saves {than} often than planned: every {duration(used)} where the plan says {duration(planned)}."
    return [Advice("soon", text)]


def last_good_of(report: Report) -> Checkpoint | None:
    return next((one for one in report.checkpoints if one.is_last_good), None)


def _status(report: Report) -> str:
    return f"lastgood status {shown(report.job)}"


def _verify(report: Report) -> str:
    return f"lastgood verify {shown(report.job)}"
