"""What is left to read when a run of a drill is over: its journals, its output, its end."""

from collections.abc import Sequence
from contextlib import suppress

from lastgood.core.accounting import Record
from lastgood.core.errors import LastgoodError
from lastgood.core.units import duration, parse_duration
from lastgood.drill.measure import StepLog, Watch
from lastgood.store.jobdir import open_job
from lastgood.trial.place import Place

_LAST_WORDS = 12


def added_options(given: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The options of `lastgood run`, each with its value, that the user has not given; one value that suits all that want
    that option. Pure.

    >>> added_options(("--grace", "5s"), ("--grace", "9s", "--hang-timeout", "5s", "--hang-timeout", "7s"))
    ['--hang-timeout', '7s']
    """
    values: dict[str, list[str]] = {}
    for name, value in zip(wanted[::2], wanted[1::2], strict=True):
        values.setdefault(name, []).append(value)
    known = {word.partition("=")[0] for word in given}
    return [word for name, each in values.items() if name not in known for word in (name, _for_all(name, each))]


def _for_all(name: str, values: Sequence[str]) -> str:
    if name == "--restart-on":
        return ",".join(dict.fromkeys(values))
    # Whoever is killed soonest has to be done by then; who takes longest for a step is no hang.
    return (min if name == "--grace" else max)(values, key=parse_duration)


def came_through(watch: Watch) -> str:
    if watch.from_step is not None and watch.first_step_at is not None:
        lost = max((watch.reached_step or 0) - watch.from_step, 0)
        after_s = duration(watch.first_step_at - watch.at)
        return f"it went on after step {watch.from_step}, first new step {after_s} after the fault, {lost} to do again"
    return "the job goes on"


def resumed_name(watch: Watch | None, records: Sequence[Record]) -> str:
    if watch is None:
        return ""
    following = [record.first("started") for record in records if record.number > watch.attempt]
    started = next((event for event in following if event is not None), None)
    return str(started.data.get("name", "")) if started is not None else ""


def refusal(watch: Watch | None, records: Sequence[Record]) -> str:
    """What the start after the fault said when it refused."""
    if watch is None:
        return ""
    for record in records:
        if record.number > watch.attempt:
            if record.first("started") is not None:
                return ""
            ended = record.last("ended")
            if ended is not None and ended.data.get("outcome") == "refused":
                return str(ended.data.get("reason", "")) or "refused"
    return ""


def final_step(place: Place, records: Sequence[Record], steps: StepLog) -> int | None:
    with suppress(LastgoodError, OSError):
        finished = open_job(place.job).finished()
        if finished is not None:
            return finished.step
    return steps.last_step


def ended_as(records: Sequence[Record]) -> str:
    decided = next((event for record in reversed(records) if (event := record.last("decided")) is not None), None)
    return str(decided.data.get("reason", "")) if decided is not None else ""


def last_words(place: Place) -> tuple[str, ...]:
    with suppress(OSError), place.output.open("rb") as file:
        file.seek(max(place.output.stat().st_size - 8192, 0))
        return tuple(file.read().decode(errors="replace").splitlines()[-_LAST_WORDS:])
    return ()
