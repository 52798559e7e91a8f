"""The failure rate in what `lastgood history --sacct --json` printed. Pure."""

from typing import Any

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.reliability import FailureRate
from lastgood.plan.situation import Failures

_REMEDY = "lastgood history --sacct FILE --json > history.json writes one; or state a rate: --failures 6.5/1000nd"


def counted_failures(data: bytes, name: str) -> Failures:
    """Raises UsageError for a file of another shape, or one in which nothing was counted."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name}: not JSON: {error}", remedy=_REMEDY) from None
    rate = _rate_in(found, name)
    if rate.per_1000_node_days <= 0:
        raise UsageError(
            f"{name}: no failure in {rate.node_days:,.0f} node-days: that is no rate to plan with",
            remedy=f"plan with the upper end of what that leaves open: --failures {rate.high:.3g}/1000nd",
        )
    failures = f"{rate.failures} failures in {rate.node_days:,.0f} node-days"
    return Failures(
        per_1000_node_days=rate.per_1000_node_days,
        low_per_1000_node_days=rate.low,
        high_per_1000_node_days=rate.high,
        source=f"{name}: {failures}, 95 % {rate.low:.3g} to {rate.high:.3g}",
    )


def _rate_in(found: Any, name: str) -> FailureRate:
    rate = found.get("rate") if isinstance(found, dict) else None
    if rate is None:
        raise UsageError(f"{name}: JSON, but it holds no failure rate", remedy=_REMEDY)
    try:
        return msgspec.convert(rate, FailureRate)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"{name}: its failure rate cannot be read: {error}", remedy=_REMEDY) from None
