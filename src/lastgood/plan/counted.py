"""The failure rate in what `lastgood history --sacct --json` printed. Pure."""

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.reliability import FailureRate
from lastgood.plan.situation import Failures

_REMEDY = "lastgood history --sacct FILE --json > history.json writes one; or state a rate: --failures 6.5/1000nd"


class _Group(msgspec.Struct, frozen=True):
    name: str
    rate: FailureRate | None


class _Attempts(msgspec.Struct, frozen=True):
    wait_median_s: float | None = None


class _History(msgspec.Struct, frozen=True):
    """The members that a plan needs."""

    rate: FailureRate | None
    partitions: list[_Group] = []
    attempts: _Attempts = _Attempts()


class Counted(msgspec.Struct, frozen=True):
    failures: Failures
    wait_s: float | None
    """Median from the end by a failure to the next start; None if no job was seen to start again."""


def counted_failures(data: bytes, name: str, partition: str | None = None) -> Counted:
    """Raises UsageError for a file of another shape, or one in which nothing was counted."""
    try:
        found = msgspec.json.decode(data, type=_History)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: no history of an accounting: {error}", remedy=_REMEDY) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"{name}: not JSON: {error}", remedy=_REMEDY) from None
    rate = found.rate if partition is None else _of_partition(found, partition, name)
    if rate is None:
        raise UsageError(f"{name}: nothing ran in the time that it tells of", remedy=_REMEDY)
    if rate.per_1000_node_days <= 0:
        raise UsageError(
            f"{name}: no failure in {rate.node_days:,.0f} node-days: that is no rate to plan with",
            remedy=f"plan with the upper end of what that leaves open: --failures {rate.high:.3g}/1000nd",
        )
    counted = f"{rate.failures:,} failures in {rate.node_days:,.0f} node-days"
    where = f"partition {partition}, " if partition is not None else ""
    failures = Failures(
        per_1000_node_days=rate.per_1000_node_days,
        low_per_1000_node_days=rate.low,
        high_per_1000_node_days=rate.high,
        source=f"{name}: {where}{counted}, 95 %: {rate.low:.3g} to {rate.high:.3g}",
    )
    return Counted(failures, found.attempts.wait_median_s)


def _of_partition(found: _History, partition: str, name: str) -> FailureRate | None:
    for group in found.partitions:
        if group.name == partition:
            return group.rate
    known = ", ".join(sorted(group.name for group in found.partitions)) or "none"
    raise UsageError(f"--partition {partition}: {name} tells of {known}")
