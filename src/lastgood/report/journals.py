"""Reading the journals of a job for a report: all that can be read is used, and what cannot is named."""

import time
from itertools import pairwise

from lastgood.core import events as journal
from lastgood.core import layout
from lastgood.core.accounting import Record
from lastgood.core.errors import DamagedError, LastgoodError
from lastgood.core.events import Event
from lastgood.core.manifest import Attempt
from lastgood.core.units import duration
from lastgood.report.model import Problem
from lastgood.store.attempts import attempt_numbers, read_attempt
from lastgood.store.durable import explained
from lastgood.store.jobdir import JobDirectory, read_document

_EARLIEST = 946_684_800.0
"""The year 2000: no journal of ours is older."""

_LATEST_S = 86_400.0
"""A line may be so much later than now: clocks differ, but not by days."""

_CLOCKS_S = 10.0
"""Lines of several processes may be in another order by so much: clocks differ, and writes may wait."""

_MOST_NAMED = 5


def read_journals(job: JobDirectory) -> tuple[list[Record], list[Problem]]:
    """Every attempt of which anything is known, oldest first. Raises StorageError or PermissionDeniedError only if the
    attempts cannot be listed."""
    with explained("read the attempts in", job.attempts):
        numbers = attempt_numbers(job)
    latest = time.time() + _LATEST_S
    records: list[Record] = []
    problems: list[Problem] = []
    for number in numbers:
        events = _events(job, number, latest, problems)
        claim = _claim(job, number, latest, problems)
        launch, is_fresh = ("", False) if claim is None else (claim.launch, claim.fresh)
        if claim is not None and _EARLIEST <= claim.started <= latest:
            records.append(Record(number, claim.started, launch, is_fresh, events))
        elif events:
            records.append(Record(number, events[0].at, launch, is_fresh, events))
        else:
            what = "nothing can be read of this attempt: it is left out, and its time counts as that between two others"
            problems.append(Problem(where=_place(layout.attempt_file(number)), what=what))
    return records, problems


def _place(name: str) -> str:
    return f"{layout.ATTEMPTS_DIR}/{name}"


def _claim(job: JobDirectory, number: int, latest: float, problems: list[Problem]) -> Attempt | None:
    place = _place(layout.attempt_file(number))
    try:
        claim = read_attempt(job, number)
    except LastgoodError as error:
        problems.append(Problem(where=place, what=f"{error.what}; what its journal says is used"))
        return None
    if claim is None:
        problems.append(Problem(where=place, what="it is not there any more; what its journal says is used"))
        return None
    if claim.format > layout.FORMAT_VERSION:
        newer = f"it has format {claim.format}, and this version knows {layout.FORMAT_VERSION}"
        problems.append(Problem(where=place, what=f"{newer}: what is understood of it is used"))
    if not _EARLIEST <= claim.started <= latest:
        problems.append(Problem(where=place, what="it has an impossible time; what its journal says is used"))
    return claim


def _is_possible(event: Event, latest: float) -> bool:
    step = event.data.get("step")
    return _EARLIEST <= event.at <= latest and (not isinstance(step, int) or 0 <= step <= layout.MAX_STEP)


def _events(job: JobDirectory, number: int, latest: float, problems: list[Problem]) -> list[Event]:
    place = _place(layout.events_file(number))
    try:
        data = read_document(job.attempts / layout.events_file(number)) or b""
    except DamagedError as error:
        problems.append(Problem(where=place, what=f"{error.what}: nothing of it is used"))
        return []
    except OSError as error:
        problems.append(Problem(where=place, what=f"cannot be read ({error.strerror or error}): nothing of it is used"))
        return []
    if torn := journal.torn_lines(data):
        which = f"line {torn[0]}" if len(torn) == 1 else f"lines {', '.join(map(str, torn[:_MOST_NAMED]))}"
        more = f" and {len(torn) - _MOST_NAMED} more" if len(torn) > _MOST_NAMED else ""
        is_torn = "is torn, and passed over" if len(torn) == 1 else "are torn, and passed over"
        problems.append(Problem(where=f"{place}, {which}{more}", what=f"{is_torn}: the rest is used"))
    found = journal.decode_lines(data)
    events = [event for event in found if _is_possible(event, latest)]
    if len(events) < len(found):
        count = len(found) - len(events)
        what = f"{count} line{'s' * (count > 1)} with an impossible time or step, passed over: the rest is used"
        problems.append(Problem(where=place, what=what))
    unknown = sorted({event.kind for event in events} - journal.KINDS)
    if unknown:
        names = ", ".join(map(repr, unknown[:_MOST_NAMED]))
        what = f"lines of kinds that this version does not know ({names}), passed over: the rest is used"
        problems.append(Problem(where=place, what=what))
    back_s = max((before.at - after.at for before, after in pairwise(events)), default=0.0)
    if back_s > _CLOCKS_S:
        clocks = "a clock was set back, or two differ"
        what = f"a line is {duration(back_s)} before the one that it follows ({clocks}): lengths of time may be wrong"
        problems.append(Problem(where=place, what=what))
    # Several processes write into one journal, each line when it happened.
    return sorted(events, key=lambda event: event.at)
