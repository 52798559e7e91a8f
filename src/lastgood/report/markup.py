"""HTML that cannot be broken by what is put into it: text is escaped by the way it is put together. Pure.

>>> element("p", "a < b", class_="note")
'<p class="note">a &lt; b</p>'
>>> element("p", element("b", "<script>"), " from a journal")
'<p><b>&lt;script&gt;</b> from a journal</p>'
"""

from collections.abc import Iterable, Sequence
from html import escape

_EMPTY = {"br", "hr", "input", "link", "meta", "path", "rect"}


_SHORT = 12
"""So many rows of a table are kept together on paper."""


class Markup(str):
    """Text that is HTML already. Any other text is escaped when it becomes part of some."""

    __slots__ = ()


def printable(text: str) -> str:
    """The text with control characters, marks that turn the direction of writing, and bytes that are no text as escapes.

    >>> printable("a\\x1b[31mb\\u202e")
    'a\\\\x1b[31mb\\\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _markup(child: object) -> str:
    return child if isinstance(child, Markup) else escape(printable(str(child)), quote=False)


def element(tag: str, /, *children: object, **attributes: object) -> Markup:
    """One element. Children that are None or "" are left out, attributes that are None or False too; `class_` is the
    attribute class, `aria_label` is aria-label."""
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(printable(str(value)))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{said}/>" if tag in ("path", "rect") else f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{together(children)}</{tag}>")


def together(children: Iterable[object]) -> Markup:
    return Markup("".join(_markup(child) for child in children if child is not None and child != ""))


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Iterable[int] = (),
    **attributes: object,
) -> Markup:
    """A table that scrolls inside itself: its caption, its columns, and rows whose first cell names the row.

    Columns of numbers are set to the right.
    """
    right = set(numbers)

    def cell(kind: str, i: int, content: object, **more: object) -> Markup:
        return element(kind, content, class_="n" if i in right else None, **more)

    body = [
        element("tr", *(cell("td", i, c) if i else cell("th", i, c, scope="row") for i, c in enumerate(row)))
        for row in rows
    ]
    inner = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *(cell("th", i, text, scope="col") for i, text in enumerate(head)))),
        element("tbody", *body),
        **attributes,
    )
    # Whoever has no mouse reaches what is cut off by focus and arrow keys.
    kind = "scroll short" if len(body) <= _SHORT else "scroll"
    return element("div", inner, class_=kind, tabindex=0, role="region", aria_label=caption)
