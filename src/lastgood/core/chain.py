"""Whether the next segment of a chain has anything to do: a chain ends with the attempt that was cancelled, gave up or was done. Pure.

The tasks of an array with one slot, and jobs that wait behind each other, start whatever became of the one before.
"""

from typing import Any

import msgspec

from lastgood.core.accounting import Record, joined
from lastgood.core.outcome import Outcome
from lastgood.core.restart import Action


class ChainEnd(msgspec.Struct, frozen=True):
    """Why a chain does not go on, and the exit code for a segment that finds so."""

    reason: str
    exit_code: int


def allocation_of(record: Record) -> dict[str, Any]:
    """What the launcher wrote down about the allocation of an attempt; empty if nothing."""
    event = record.last("allocation")
    return event.data if event else {}


def is_earlier_start(record: Record, here: dict[str, Any]) -> bool:
    """True if that attempt ran in an earlier start of the very job that `here`, this allocation, is a start of. The
    scheduler has given that one up, whether or not its processes know: it never runs two at once."""
    there = allocation_of(record)
    if not there or any(there.get(name) != here.get(name) for name in ("cluster", "job_id")):
        return False
    return int(there.get("restart_count") or 0) < int(here.get("restart_count") or 0)


def is_before_in_chain(record: Record, here: dict[str, Any]) -> bool:
    """True if that attempt ran in an earlier segment of the chain that `here`, this allocation, belongs to."""
    there = allocation_of(record)
    return bool(there) and there.get("chain") == here.get("chain") and there.get("job_id") != here.get("job_id")


def is_cause_unknown(record: Record) -> bool:
    """True if an attempt may have been cancelled, for all that its launcher knew: it was killed itself, or asked to stop
    while slurmctld did not answer."""
    ended = record.last("ended")
    return ended is None or str(ended.data.get("stop_cause", "")).startswith("SIG")


def is_begun_in_chain(records: list[Record], here: dict[str, Any]) -> bool:
    """True if an attempt of the chain that `here` belongs to has begun: a new start that was asked for was that one."""
    return bool(here) and any(allocation_of(record).get("chain") == here.get("chain") for record in records)


def chain_end(records: list[Record], here: dict[str, Any]) -> ChainEnd | None:
    """None if the chain goes on. A job that is submitted anew is another chain, and is not bound by this."""
    # What torchrun restarted by itself knows nothing of allocations.
    records = joined(records)
    if not records or not is_before_in_chain(records[-1], here):
        return None
    ended, decided = records[-1].last("ended"), records[-1].last("decided")
    number = records[-1].number
    code = decided.data.get("exit_code") if decided else None
    if ended is not None and ended.data.get("outcome") == Outcome.CANCELLED.value:
        return ChainEnd(f"attempt {number} was cancelled", code if isinstance(code, int) and code else 1)
    if decided is not None and decided.data.get("action") == Action.GIVE_UP.value:
        return ChainEnd(
            f"attempt {number} gave up: {decided.data.get('reason')}", code if isinstance(code, int) and code else 1
        )
    return None
