"""Text for a terminal: tables, bars and facts that keep to a width, in the characters that there are. Pure.

Names and reasons come from files that anybody may have written: nothing of them reaches a terminal as a control character.
"""

import math
import textwrap
from collections.abc import Sequence

import msgspec

from lastgood.report.model import SpanKind

LEAST_WIDTH, MOST_WIDTH = 60, 140
_GAP = 2
_LEAST_LAST = 24
"""Room for the last column, as long as another can be left out."""
_EIGHTHS = "▏▎▍▌▋▊▉█"

_UNICODE: dict[SpanKind, str] = {
    "useful": "█",
    "lost": "▒",
    "saving": "┃",
    "restarting": "╌",
    "stopping": "╴",
    "hung": "▚",
    "queued": "·",
    "down": "_",
    "unseen": "?",
}
_ASCII: dict[SpanKind, str] = {
    "useful": "#",
    "lost": "x",
    "saving": "|",
    "restarting": "-",
    "stopping": "~",
    "hung": "!",
    "queued": ".",
    "down": "_",
    "unseen": "?",
}
_COLOURS: dict[SpanKind, str] = {
    "useful": "32",
    "lost": "31",
    "saving": "36",
    "restarting": "33",
    "stopping": "33",
    "hung": "35",
    "queued": "34",
    "down": "90",
    "unseen": "90",
}


class Screen(msgspec.Struct, frozen=True):
    """What can be shown."""

    width: int = 80
    is_coloured: bool = False
    is_unicode: bool = True

    def sign(self, kind: SpanKind) -> str:
        """The character of a kind of time, without colour."""
        return (_UNICODE if self.is_unicode else _ASCII)[kind]

    def painted(self, kind: SpanKind, text: str) -> str:
        return self._styled(_COLOURS[kind], text)

    def strong(self, text: str) -> str:
        return self._styled("1", text)

    def warning(self, text: str) -> str:
        return self._styled("33", text)

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_coloured and text.strip() else text

    def bar(self, share: float, cells: int) -> str:
        """As long as the share of `cells`, and `cells` wide; never empty for more than nothing.

        >>> Screen().bar(0.5, 4), Screen(is_unicode=False).bar(0.3, 4), Screen().bar(0.001, 4), Screen().bar(0, 2)
        ('██  ', '#   ', '▏   ', '  ')
        """
        share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
        if not self.is_unicode:
            count = max(round(share * cells), int(share > 0))
            return ("#" * count).ljust(cells)
        eighths = max(round(share * cells * 8), int(share > 0))
        return ("█" * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")).ljust(cells)


def plain(text: str) -> str:
    """On one line, with control characters as escapes.

    >>> plain("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width`; at least one."""
    return textwrap.wrap(plain(text), max(width, 10), subsequent_indent=indent) or [""]


def facts(pairs: Sequence[tuple[str, str]], screen: Screen) -> list[str]:
    """A label and what is to be said of it, wrapped beside it; what is empty is left out.

    >>> print(*facts([("job", "runs/a"), ("none", "")], Screen()), sep="\\n")
    job  runs/a
    """
    shown = [(label, text) for label, text in pairs if text]
    width = max((len(label) for label, _ in shown), default=0) + _GAP
    lines = []
    for label, text in shown:
        first, *others = wrap(text, screen.width - width)
        lines += [
            screen.strong(label.ljust(width - _GAP)) + " " * _GAP + first,
            *(" " * width + line for line in others),
        ]
    return lines


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    screen: Screen,
    right: Sequence[int] = (),
    *,
    most_lines: int = 3,
    may_lack: Sequence[str] = (),
) -> list[str]:
    """Rows under headings; the last column takes the room that is left and wraps, up to `most_lines`. Columns in which no
    row has anything are left out, and where there is no room those that it `may_lack`, the first ones first.

    >>> print(*table(["N", "", "WHAT"], [["1", "", "one"], ["10", "", "ten"]], Screen(), right=[0]), sep="\\n")
     N  WHAT
     1  one
    10  ten
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    last = len(headings) - 1
    kept = [i for i in range(last) if any(row[i] for row in cells)] + [last]
    widths = {i: max(len(headings[i]), *(len(row[i]) for row in cells)) if cells else len(headings[i]) for i in kept}
    for name in may_lack:
        if screen.width - sum(widths[i] + _GAP for i in kept[:-1]) >= _LEAST_LAST:
            break
        kept = [i for i in kept if headings[i] != name or i == last]
    indent = sum(widths[i] + _GAP for i in kept[:-1])
    room = max(screen.width - indent, 16)
    lines = []
    for number, row in enumerate([list(headings), *cells]):
        padded = [row[i].rjust(widths[i]) if i in right else row[i].ljust(widths[i]) for i in kept[:-1]]
        wrapped = wrap(row[last], room)
        if len(wrapped) > most_lines:
            wrapped = [*wrapped[: most_lines - 1], wrapped[most_lines - 1][: room - 3] + "..."]
        first = (" " * _GAP).join([*padded, wrapped[0]]).rstrip()
        lines.append(screen.strong(first) if number == 0 else first)
        lines += [(" " * indent + line).rstrip() for line in wrapped[1:]]
    return lines


def shorten(text: str, width: int) -> str:
    """Cut in the middle: the end of a path tells more than its begin.

    >>> shorten("/scratch/ada/runs/example-1", 16)
    '/scr...example-1'
    """
    text = plain(text)
    if len(text) <= width:
        return text
    tail = max((width - 3) * 3 // 4, 1)
    return text[: max(width - 3 - tail, 0)] + "..." + text[-tail:]
