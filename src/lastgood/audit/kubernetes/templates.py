"""Templates of Helm, Go and Jinja, made readable as YAML: what they fill in is blanked out, every place stays. Pure."""

import re
from collections.abc import Iterator

import msgspec

UNKNOWN = "\ue000"
"""Stands for one character of a template's expression: no text of a manifest holds it."""

_OPENS = re.compile(r"\{\{|\{%|(?<!\$)\{#")
_CLOSES = {"{{": "}}", "{%": "%}", "{#": "#}"}
_VARIABLE = re.compile(r"^[ \t]*(?:- )?[\w./-]+:[ \t]+[\"']?\$\{?[A-Za-z_]\w*\}?[\"']?[ \t]*$", re.MULTILINE)
_PRINTED = re.compile(r"[^\n]")


class Blanked(msgspec.Struct, frozen=True):
    text: str
    """As many lines as the template has, and what stands in them at the same columns."""
    lines: tuple[int, ...]
    """Lines, from 1 on, in which something is filled in or decided."""


def blank(text: str) -> Blanked:
    """A line of nothing but tags becomes an empty one; a tag in a value becomes text that is not known.

    >>> blanked = blank("{{- if .Values.x }}\\na: {{ .V.a }}b\\n")
    >>> blanked.text.replace(UNKNOWN, "?"), blanked.lines
    ('\\na: ??????????b\\n', (1, 2))
    """
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return Blanked(text, ())
    pieces, at = [], 0
    for begin, end in _tags(text):
        pieces += [text[at:begin], _PRINTED.sub(UNKNOWN, text[begin:end])]
        at = end
    lines = ("".join(pieces) + text[at:]).split("\n")
    touched = []
    for i, line in enumerate(lines):
        if UNKNOWN not in line:
            continue
        touched.append(i + 1)
        if not line.replace(UNKNOWN, "").strip():
            # Not a comment: inside of a block of text that would end the block. A command that goes on behind it still does.
            above = lines[i - 1] if i else ""
            is_continued = above.endswith("\\")
            lines[i] = above[: len(above) - len(above.lstrip())] + "\\" if is_continued else ""
    return Blanked("\n".join(lines), tuple(touched))


def _tags(text: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each tag. What is never closed is none."""
    unclosed: set[str] = set()
    behind = 0
    for match in _OPENS.finditer(text):
        if match.start() < behind or match[0] in unclosed:
            continue
        # `{#` is common in shell scripts: as a comment of Jinja it counts within a line only.
        limit = text.find("\n", match.end()) if match[0] == "{#" else -1
        end = text.find(_CLOSES[match[0]], match.end(), limit if limit >= 0 else None)
        if end >= 0:
            behind = end + 2
            yield match.start(), behind
        elif match[0] != "{#":
            unclosed.add(match[0])


def variables(text: str) -> tuple[int, ...]:
    """Lines whose whole value is a variable that something like envsubst fills in.

    >>> variables("replicas: ${N}\\nname: $(POD)\\nkind: Job\\n")
    (1,)
    """
    return tuple(text.count("\n", 0, match.start()) + 1 for match in _VARIABLE.finditer(text))
