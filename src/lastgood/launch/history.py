"""What the job's journals say of its earlier attempts."""

from lastgood.core.accounting import Account, Record, account, joined, launches_after
from lastgood.core.errors import LastgoodError
from lastgood.core.events import Event
from lastgood.core.outcome import Ending, Outcome, classify_raised
from lastgood.core.restart import Past
from lastgood.launch.evidence import exceptions
from lastgood.store.attempts import attempt_numbers, read_attempt, read_events
from lastgood.store.jobdir import JobDirectory

_RECENT = 10


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


def events_since(job: JobDirectory, number: int) -> list[Event]:
    """Everything that attempt `number` and the restarts inside it wrote down, in order of time.

    Newer attempts of another launcher are none of its business.
    """
    records = [record for record in read_records(job) if record.number >= number]
    records = [record for record in records if record.launch == records[0].launch]
    return sorted((event for record in records for event in record.events), key=lambda event: event.at)


def recent_write_s(records: list[Record]) -> float | None:
    """The longest of the newest writes that the journals tell of; None if there is none."""
    writes = [e.data.get("write_s") for r in records for e in r.events if e.kind == "committed"]
    return max((float(w) for w in writes[-_RECENT:] if isinstance(w, int | float)), default=None)


def past_of(records: list[Record]) -> list[Past]:
    """Earlier attempts as decisions about a restart need them. Nobody runs the job now."""
    relevant = joined(launches_after(records))
    return [
        Past(ending_of(a, r), _made_progress(a, r), a.reached_step, _was_stop_asked(r))
        for a, r in zip(account(relevant, None), relevant, strict=True)
    ]


def _made_progress(accounted: Account, record: Record) -> bool | None:
    ended = record.last("ended")
    told = ended.data.get("made_progress") if ended else None
    return told if isinstance(told, bool) else accounted.has_progressed


def _was_stop_asked(record: Record) -> bool:
    ended = record.last("ended")
    return bool(ended.data.get("stop_cause")) if ended else record.first("stopping") is not None


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
    if raised := exceptions(record.events):
        return classify_raised(raised)
    if (stopping := record.last("stopping")) is not None:
        return Ending(Outcome.PREEMPTED, f"{stopping.data.get('cause')} (it ran without a launcher)")
    return Ending(Outcome.KILLED, "nobody saw its end (it ran without a launcher)")


def _outcome(text: str) -> Outcome:
    try:
        return Outcome(text)
    except ValueError:
        return Outcome.KILLED
