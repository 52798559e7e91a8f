"""Failures of the past, to be caused again: from a job's journals, or from what `lastgood history --json` printed."""

from pathlib import Path
from typing import Any

import msgspec

from lastgood.core.accounting import Record, account
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.outcome import Outcome
from lastgood.core.reliability import DAY_S
from lastgood.drill.schedule import Failure
from lastgood.launch.history import read_records
from lastgood.store.durable import explained
from lastgood.store.jobdir import open_job

_NO_FAILURE = (Outcome.FINISHED, Outcome.REFUSED, Outcome.CANCELLED, Outcome.PROGRAM_ERROR)
_MOST_BYTES = 256 * 1024**2


class Told(msgspec.Struct, frozen=True):
    """What a history says: the failures one by one, or only how often they come."""

    failures: list[Failure] = []
    per_1000_node_days: float | None = None

    def mtti_s(self, nodes: int) -> float | None:
        """Mean time between failures of a job on so many nodes; None if only single failures are told."""
        rate = self.per_1000_node_days
        return None if not rate else 1000 * DAY_S / (rate * nodes)


def read_history(path: Path) -> Told:
    """Raises UsageError for what is none of these, and for a history without a failure."""
    told = Told(failures_of(_spans_of(path))) if path.is_dir() else _of_document(path)
    if not told.failures and not told.per_1000_node_days:
        raise UsageError(f"{path}: it tells of no failure", safe="nothing was started")
    return told


def failures_of(spans: list[tuple[float, float, str]]) -> list[Failure]:
    """From when attempts began and ended, and how: each failure at the running time that had passed by then. Waiting does not
    count. Pure.

    >>> failures_of([(100.0, 160.0, "killed"), (500.0, 530.0, "hang"), (600.0, 700.0, "finished")])[1].at_s
    90.0
    """
    found, ran_s = [], 0.0
    for began, ended, how in spans:
        ran_s += max(ended - began, 0.0)
        try:
            outcome = Outcome(how)
        except ValueError:
            continue
        if outcome not in _NO_FAILURE:
            found.append(Failure(ran_s, outcome))
    return found


def _spans_of(path: Path) -> list[tuple[float, float, str]]:
    job = open_job(path)
    with explained("read the attempts in", job.attempts):
        records: list[Record] = read_records(job)
    return [(a.began, a.ended, a.outcome or Outcome.LAUNCHER_LOST.value) for a in account(records, None) if a.ended]


def _of_document(path: Path) -> Told:
    with explained("read the history", path, safe="nothing was started"):
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} is too large to be what `lastgood history --json` prints")
        data = path.read_bytes()
    try:
        document: Any = msgspec.json.decode(data)
        if "attempts" in document and isinstance(document["attempts"], list):
            rows = msgspec.convert(document["attempts"], list[_Row])
            return Told(failures_of([(row.began, row.ended, row.outcome) for row in rows if row.ended is not None]))
        if "rate" in document:
            rate = msgspec.convert(document["rate"], _Rate | None)
            return Told(per_1000_node_days=None if rate is None else rate.per_1000_node_days)
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError, LastgoodError) as error:
        raise UsageError(f"{path}: {error}", remedy=_REMEDY) from None
    raise UsageError(f"{path} tells of no attempts", safe="nothing was started", remedy=_REMEDY)


_REMEDY = (
    "give the directory of a job, or what `lastgood history JOB --json` or `lastgood history --sacct ... --json` prints"
)


class _Row(msgspec.Struct):
    began: float
    ended: float | None = None
    outcome: str = ""


class _Rate(msgspec.Struct):
    per_1000_node_days: float
