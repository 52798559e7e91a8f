"""The time line of a job in characters: one row for each attempt, under a common ruler. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from lastgood.core.units import duration
from lastgood.report.model import KINDS, Report, Span, SpanKind
from lastgood.report.textual import Screen

_MOST_ROWS = 24


def time_line(report: Report, screen: Screen, *, is_all: bool) -> list[str]:
    """Empty where there is no time to show."""
    if not report.spans or report.seconds <= 0:
        return []
    numbers = [attempt.attempt for attempt in report.attempts]
    shown = numbers if is_all else numbers[-_MOST_ROWS:]
    label = max(len(f"#{number}") for number in numbers)
    cells = screen.width - label - 1
    begin, end = report.spans[0].begin, report.spans[-1].end
    if len(shown) < len(numbers):
        begin = next((span.begin for span in report.spans if span.attempt in shown), begin)
    spans = [span for span in report.spans if span.end > begin]
    whole = end - begin
    if whole <= 0:
        return []
    lines = [" " * (label + 1) + _axis(begin, end, cells)]
    by_attempt: dict[int, list[Span]] = {}
    for span in spans:
        by_attempt.setdefault(report.row_of(span), []).append(span)
    for number in shown:
        row = _row(by_attempt.get(number, []), begin, whole / cells, cells)
        lines.append(f"#{number}".rjust(label) + " " + _painted(row, screen))
    used = [kind for kind in KINDS if any(span.kind == kind for span in spans)]
    legend, line = [], ""
    for kind in used:
        word = f"{screen.sign(kind)} {kind}"
        if len(line) + len(word) + 2 > cells and line:
            legend.append(line)
            line = ""
        line += ("  " if line else "") + word
    lines += [" " * (label + 1) + text for text in [*legend, line]]
    lines.append(" " * (label + 1) + f"a column is {duration(whole / cells)}")
    if len(shown) < len(numbers):
        lines.append(f"({len(numbers) - len(shown)} earlier attempts: --all)")
    return lines


def _axis(begin: float, end: float, cells: int) -> str:
    first, last = _clock(begin, end, begin), _clock(begin, end, end) + " UTC"
    return first + " " * max(cells - len(first) - len(last), 1) + last


def _clock(begin: float, end: float, at: float) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    is_short = end - begin < 600
    is_same_day = datetime.fromtimestamp(begin, UTC).date() == datetime.fromtimestamp(end, UTC).date()
    clock = "%H:%M:%S" if is_short else "%H:%M"
    return moment.strftime(clock if is_same_day and at == end else f"%Y-%m-%d {clock}")


def _row(spans: Sequence[Span], begin: float, cell_s: float, cells: int) -> list[SpanKind | None]:
    """For each cell the kind that most of it is; None where the attempt is not."""
    seconds: list[dict[SpanKind, float]] = [{} for _ in range(cells)]
    for span in spans:
        first = min(max(int((span.begin - begin) / cell_s), 0), cells - 1)
        last = min(max(int((span.end - begin) / cell_s), 0), cells - 1)
        for cell in range(first, last + 1):
            left, right = begin + cell * cell_s, begin + (cell + 1) * cell_s
            part = min(span.end, right) - max(span.begin, left)
            if part > 0:
                seconds[cell][span.kind] = seconds[cell].get(span.kind, 0.0) + part
    return [max(found.items(), key=lambda item: item[1])[0] if found else None for found in seconds]


def _painted(row: Sequence[SpanKind | None], screen: Screen) -> str:
    """Runs of one kind are painted at once."""
    text, at = "", 0
    while at < len(row):
        kind, count = row[at], 1
        while at + count < len(row) and row[at + count] == kind:
            count += 1
        text += " " * count if kind is None else screen.painted(kind, screen.sign(kind) * count)
        at += count
    return text.rstrip()
