"""Lines of files that anybody may have written, shown in a terminal of some width. Pure."""

import textwrap
import unicodedata

from lastgood.audit.finding import Excerpt
from lastgood.audit.rule import Severity
from lastgood.audit.source import Span

_TAB = 4
_CUT = "..."

_COLOURS = {
    Severity.LOST: "31;1",
    Severity.MAY_BE_LOST: "33;1",
    Severity.WASTEFUL: "36;1",
    Severity.NOTE: "34;1",
}


class Style:
    """Colours, or none."""

    def __init__(self, is_coloured: bool) -> None:
        self._is_coloured = is_coloured

    def bold(self, text: str) -> str:
        return self._wrapped(text, "1")

    def dim(self, text: str) -> str:
        return self._wrapped(text, "2")

    def good(self, text: str) -> str:
        return self._wrapped(text, "32;1")

    def severity(self, severity: Severity, text: str) -> str:
        return self._wrapped(text, _COLOURS[severity])

    def _wrapped(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._is_coloured and text else text


def harmless(text: str) -> str:
    """The text on one line, with whatever a terminal would obey or hide as an escape.

    >>> harmless("a\\x1b[31mb\\n")
    'a\\\\x1b[31mb\\\\n'
    """
    if text.isprintable():
        return text
    return "".join(_shown(c) for c in text)


def wrapped(text: str, width: int, first: str = "  ", others: str = "  ") -> list[str]:
    """Lines of at most `width`, never broken inside a word or at a dash of an option."""
    return textwrap.wrap(
        harmless(text),
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def pointed_at(excerpt: Excerpt, span: Span, width: int) -> tuple[str, str]:
    """(the line, the caret line below it), both within `width` columns: long lines are cut around the place."""
    cells, places = _cells(excerpt.text)
    begin = min(max(span.column - excerpt.column, 0), len(places) - 1)
    end = span.end_column - excerpt.column if span.end_line == span.line else len(places) - 1
    first = places[begin]
    last = max(places[min(max(end, begin), len(places) - 1)], first + 1)
    left, right = _window(len(cells), first, last, width, excerpt)
    cut_left = left > 0 or excerpt.column > 1
    cut_right = right < len(cells) or excerpt.is_cut
    text = (_CUT if cut_left else "") + "".join(cells[left:right]) + (_CUT if cut_right else "")
    before = first - left + (len(_CUT) if cut_left else 0)
    return text.rstrip(), " " * before + "^" + "~" * (min(last, max(right, first + 1)) - first - 1)


def _window(count: int, first: int, last: int, width: int, excerpt: Excerpt) -> tuple[int, int]:
    """Which cells are shown."""
    if count <= width and excerpt.column == 1 and not excerpt.is_cut:
        return 0, count
    room = max(width - 2 * len(_CUT), 8)
    if last <= room:
        return 0, min(room, count)
    left = max(0, min(first - room // 4, count - room))
    return left, min(left + room, count)


def _cells(text: str) -> tuple[list[str], list[int]]:
    """One entry for each column of the terminal, and the column at which each character begins; a character that takes
    two columns is followed by an empty entry, one that takes none is in the entry before."""
    cells: list[str] = []
    places: list[int] = []
    for c in text:
        places.append(len(cells))
        if c == "\t":
            cells += [" "] * (_TAB - len(cells) % _TAB)
        elif not c.isprintable():
            cells += _shown(c)
        elif unicodedata.category(c) in ("Mn", "Me") and cells:
            cells[-1] += c
        elif unicodedata.east_asian_width(c) in "WF":
            cells += [c, ""]
        else:
            cells.append(c)
    places.append(len(cells))
    return cells, places


def _shown(c: str) -> str:
    """
    >>> _shown("a"), _shown("\\u202e"), _shown("\\udcff")
    ('a', '\\\\u202e', '\\\\xff')
    """
    if c.isprintable():
        return c
    if "\udc80" <= c <= "\udcff":
        # A byte that is no UTF-8.
        return f"\\x{ord(c) - 0xDC00:02x}"
    return ascii(c)[1:-1]


def cut(text: str, width: int) -> str:
    """
    >>> cut("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= width else text[: width - len(_CUT)].rstrip() + _CUT


def counted(count: int, one: str, many: str = "") -> str:
    """
    >>> counted(1, "file"), counted(0, "file")
    ('1 file', '0 files')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
