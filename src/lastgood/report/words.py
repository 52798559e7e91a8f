"""Numbers, times and states as the page says them. Pure."""

from datetime import UTC, datetime

from lastgood.core.units import byte_size, duration
from lastgood.report.markup import Markup, element
from lastgood.report.model import AttemptLine, Report

NOTHING = "–"
"""In a cell for which nothing is known."""


def counted(count: int, word: str, plural: str = "") -> str:
    """
    >>> counted(1, "attempt"), counted(2000, "attempt"), counted(2, "loss", "losses")
    ('1 attempt', '2,000 attempts', '2 losses')
    """
    return f"{count:,} {word if count == 1 else plural or word + 's'}"


def percent(share: float) -> str:
    """
    >>> percent(0.912), percent(0.99996), percent(1.0), percent(0.0004)
    ('91.2 %', 'over 99.9 %', '100 %', '0.04 %')
    """
    if share >= 1:
        return "100 %"
    if share >= 0.9995:
        return "over 99.9 %"
    if share <= 0:
        return "0 %"
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.1g} %"


def written(at: float, form: str) -> str:
    """A time in UTC; one that no calendar has, as a damaged journal may tell, as its number.

    >>> written(0, "%H:%M"), written(1e18, "%H:%M")
    ('00:00', '1e+18 s')
    """
    try:
        return datetime.fromtimestamp(at, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{at:g} s"


def instant(at: float, *, is_short: bool = False) -> Markup:
    """A time as an element that programs can read, too."""
    text = written(at, "%m-%d %H:%M:%S" if is_short else "%Y-%m-%d %H:%M:%S UTC")
    return element("time", text, datetime=written(at, "%Y-%m-%dT%H:%M:%SZ"), class_="nowrap")


def value(number: object, text: object, name: str) -> Markup:
    """A figure for people, with the number that it is made from for programs."""
    return element("data", text, value=number, data_is=name)


def step(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def span(seconds: float | None) -> str:
    return NOTHING if seconds is None else duration(seconds)


def size(count: int | None) -> str:
    return NOTHING if count is None else byte_size(count)


def lost_steps(line: AttemptLine) -> str:
    """What an attempt lost; "?" where more may be lost, or nothing tells."""
    if not line.lost_steps:
        return NOTHING if line.is_loss_known else "?"
    return f"{line.lost_steps:,}{'' if line.is_loss_known else '+'}"


def lost_in_all(report: Report) -> str:
    unseen = sum(not line.is_loss_known for line in report.attempts)
    known = f"{counted(report.lost_steps, 'step')}, {duration(report.lost_s)}" if report.lost_steps else "nothing known"
    if not unseen:
        return known
    return f"{known}; {counted(unseen, 'attempt')} may have lost more: nobody saw {'its last step' if unseen == 1 else 'their last steps'}"


def state_class(report: Report) -> str:
    if report.state == "given up":
        return "bad"
    if report.state in ("stopped, unfinished", "running without its launcher"):
        return "warn"
    return "good" if report.state in ("finished", "running") else "quiet"


def job_names(paths: list[str]) -> list[str]:
    """The last part of each path, and as many before it as tell them apart.

    >>> job_names(["/a/x/job", "/a/y/job", "/a/z"])
    ['x/job', 'y/job', 'z']
    """
    split = [[part for part in path.split("/") if part] or [path] for path in paths]
    lengths = [1] * len(paths)
    while True:
        names = ["/".join(parts[-length:]) for parts, length in zip(split, lengths, strict=True)]
        longer = [
            length + 1 if names.count(name) > 1 and length < len(parts) else length
            for name, parts, length in zip(names, split, lengths, strict=True)
        ]
        if longer == lengths:
            return names
        lengths = longer
