"""Time as a strip and as a bar, drawn by the page itself: they need no library and fit any width. Pure.

A strip with many spans is drawn as columns of equal width, each filled by the shares of what happened in it: nothing
that was short disappears because something long stood beside it.
"""

from collections.abc import Iterable, Mapping, Sequence

from lastgood.report.markup import Markup, element
from lastgood.report.model import KINDS, Span

_WIDTH = 1000
_HEIGHT = 20
_MOST_SPANS = 400
COLUMNS = 250
_MOST_MARKS = 120
_LEAST_HEIGHT = 0.002
_LOW = {"useful", "queued", "down"}
"""Drawn lower than what was lost, so that the two are told apart without colours."""

Box = tuple[float, float, float, float]
"""x, y, width, height, as parts of the whole: x to the right, y up."""


def is_in_columns(spans: Sequence[Span]) -> bool:
    """True if there are too many spans to draw each."""
    return len(spans) > _MOST_SPANS


def boxes(spans: Sequence[Span], begin: float, end: float) -> dict[str, list[Box]]:
    """What there is to draw of each kind, for a time line from `begin` to `end`."""
    if is_in_columns(spans):
        return _columns(spans, begin, end)
    whole = max(end - begin, 1e-9)
    shapes: dict[str, list[Box]] = {}
    for span in spans:
        height = 0.7 if span.kind in _LOW else 1.0
        shapes.setdefault(span.kind, []).append(((span.begin - begin) / whole, 0.0, span.seconds / whole, height))
    return shapes


def strip(
    spans: Sequence[Span], marks: Iterable[float], begin: float, end: float, *, label: str, is_small: bool = False
) -> Markup:
    """What happened from `begin` to `end`, with a line at each of `marks`. `label` says it to who does not see it."""
    whole = max(end - begin, 1e-9)
    # One line for all that fall on the same place.
    places = sorted({round((at - begin) / whole * _MOST_MARKS) * _WIDTH / _MOST_MARKS for at in marks})
    lines = "".join(f"M{min(max(place, 1), _WIDTH - 1):g} 0V{_HEIGHT}" for place in places)
    return element(
        "svg",
        element("title", label),
        element("rect", class_="base", width=_WIDTH, height=_HEIGHT),
        *(
            element("path", class_=f"k-{kind}", d="".join(_path(box) for box in found))
            for kind, found in boxes(spans, begin, end).items()
        ),
        element("path", class_="mark", d=lines) if lines else None,
        class_="strip small" if is_small else "strip",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def bar(seconds: Mapping[str, float], *, label: str) -> Markup:
    """Shares of a whole, one beside the other."""
    total = sum(seconds.values())
    pieces, x = [], 0.0
    for kind, s in seconds.items():
        width = _WIDTH * s / total if total else 0.0
        if width > 0:
            # A hair's breadth of paper between two, and no share so small that it vanishes.
            pieces.append(element("path", class_=f"k-{kind}", d=_rectangle(x, 0, max(width - 1.5, 1.5), _HEIGHT)))
        x += width
    return element(
        "svg",
        element("title", label),
        *pieces,
        class_="bar",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def _columns(spans: Sequence[Span], begin: float, end: float) -> dict[str, list[Box]]:
    width_s = max((end - begin) / COLUMNS, 1e-12)
    columns: list[dict[str, float]] = [{} for _ in range(COLUMNS)]
    for span in spans:
        first = min(max(int((span.begin - begin) / width_s), 0), COLUMNS - 1)
        last = min(max(int((span.end - begin) / width_s), first), COLUMNS - 1)
        for i in range(first, last + 1):
            low, high = begin + i * width_s, begin + (i + 1) * width_s
            part = min(span.end, high) - max(span.begin, low)
            columns[i][span.kind] = columns[i].get(span.kind, 0.0) + max(part, 0.0)
    shapes: dict[str, list[Box]] = {}
    for i, column in enumerate(columns):
        # Useful work lies at the bottom, always, and what else there was upon it.
        bottom = 0.0
        for kind in (kind for kind in KINDS if kind in column):
            height = min(column[kind] / width_s, 1.0 - bottom)
            if height > _LEAST_HEIGHT:
                shapes.setdefault(kind, []).append((i / COLUMNS, bottom, 1 / COLUMNS, height))
                bottom += height
    return shapes


def _path(box: Box) -> str:
    x, y, width, height = box
    return _rectangle(_WIDTH * x, _HEIGHT * (1 - y - height), max(_WIDTH * width, 0.5), _HEIGHT * height)


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return f"M{_short(x)} {_short(y)}h{_short(width)}v{_short(height)}h-{_short(width)}z"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
