"""Templates of Helm, Go and Jinja, made readable as YAML: what they fill in is blanked out, every place stays. Pure."""

import re

import msgspec

UNKNOWN = "\ue000"
"""Stands for one character of a template's expression: no text of a manifest holds it."""

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|(?<!\$)\{#[^\n]*?#\}", re.DOTALL)
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
    marked = _TAG.sub(lambda tag: _PRINTED.sub(UNKNOWN, tag[0]), text)
    lines = marked.split("\n")
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


def variables(text: str) -> tuple[int, ...]:
    """Lines whose whole value is a variable that something like envsubst fills in.

    >>> variables("replicas: ${N}\\nname: $(POD)\\nkind: Job\\n")
    (1,)
    """
    return tuple(text.count("\n", 0, match.start()) + 1 for match in _VARIABLE.finditer(text))
