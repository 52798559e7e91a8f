"""What the job's journals say of its earlier attempts."""

from lastgood.core.accounting import Account, Record, account, joined, launches_after
from lastgood.core.errors import LastgoodError
from lastgood.core.outcome import Ending, Outcome
from lastgood.core.restart import Past
from lastgood.store.attempts import attempt_numbers, read_attempt, read_events
from lastgood.store.jobdir import JobDirectory


def read_records(job: JobDirectory) -> list[Record]:
    """Every attempt, oldest first. One whose claim is damaged counts, with what its journal says.

    Raises OSError if the directory or a journal cannot be read.
    """
    records = []
    for number in attempt_numbers(job):
        events = read_events(job, number)
        try:
            attempt = read_attempt(job, number)
        except LastgoodError:
            attempt = None
        if attempt is None:
            records.append(Record(number, events[0].at if events else 0.0, "", False, events))
        else:
            records.append(Record(number, attempt.started, attempt.launch, attempt.fresh, events))
    return records


def past_of(records: list[Record]) -> list[Past]:
    """Earlier attempts as decisions about a restart need them. Nobody runs the job now."""
    relevant = joined(launches_after(records))
    return [
        Past(ending_of(a, r), a.has_progressed, a.reached_step)
        for a, r in zip(account(relevant, None), relevant, strict=True)
    ]


def ending_of(accounted: Account, record: Record) -> Ending:
    """How an attempt ended, which is not running any more."""
    ended = record.last("ended")
    if ended is not None:
        code = ended.data.get("exit_code")
        return Ending(_outcome(accounted.outcome), accounted.reason, code if isinstance(code, int) else None)
    if record.last("finished") is not None:
        return Ending(Outcome.FINISHED, "all steps are done")
    if record.launch:
        return Ending(Outcome.LAUNCHER_LOST, "nobody saw its end: the launcher was killed, or its node failed")
    if (raised := record.last("exception")) is not None:
        return Ending(Outcome.PROGRAM_ERROR, f"{raised.data.get('type')}: {raised.data.get('text')}")
    if (stopping := record.last("stopping")) is not None:
        return Ending(Outcome.PREEMPTED, f"{stopping.data.get('cause')} (it ran without a launcher)")
    return Ending(Outcome.KILLED, "nobody saw its end (it ran without a launcher)")


def _outcome(text: str) -> Outcome:
    try:
        return Outcome(text)
    except ValueError:
        return Outcome.KILLED
