"""What is known of a job before a start, beside its checkpoints: for commands whose start the launcher decides."""

from collections.abc import Mapping

from lastgood.core.accounting import Record
from lastgood.core.outcome import Outcome
from lastgood.core.start import EarlierAttempt, Expectation
from lastgood.store.jobdir import JobDirectory
from lastgood.store.record import Records


def since_new_start(records: list[Record]) -> list[Record]:
    begin = max((i for i, record in enumerate(records) if record.is_fresh), default=0)
    return records[begin:]


def earlier_attempts(records: list[Record]) -> list[EarlierAttempt]:
    """The attempts since the last new start, with the newest checkpoint that each was seen to write.

    One that was refused never ran: it does not explain why there is no checkpoint.
    """
    found = []
    for record in since_new_start(records):
        steps = [event.data.get("step") for event in record.events if event.kind == "committed"]
        newest = max((s for s in steps if isinstance(s, int)), default=None)
        ended = record.last("ended")
        if newest is not None or ended is None or ended.data.get("outcome") != Outcome.REFUSED.value:
            found.append(EarlierAttempt(record.number, newest))
    return found


def expectations(job: JobDirectory, records: Records, restart_counts: Mapping[str, int]) -> list[Expectation]:
    """Signs from outside the job's directory that it has run before."""
    found = [Expectation(f"{name}={count}") for name, count in restart_counts.items()]
    record = records.read(job.path)
    if record is not None:
        found.append(Expectation("the record in the user's state directory", record.step))
    return found
