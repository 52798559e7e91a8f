"""Words of a shell command: what is literal in them, and what the shell puts in. Pure."""

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from lastgood.audit.source import Source, Span

if TYPE_CHECKING:
    from tree_sitter import Node

_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_INSIDE = re.compile(r"(?<!\\)\$([A-Za-z_]\w*|\d)")
_NAMED = re.compile(rb"\$(?:[A-Za-z_]\w*|\d)")
_IN_WORDS = frozenset(b"/.:,@%+~^-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPE_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
_CUT = re.compile(r"(%%?|##?)([^$`\"'\\]{1,40})\Z", re.DOTALL)
_DEEPEST = 50
MOST_PARTS = 400
"""A word of more is left as it is."""
_LONGEST = 20_000
_LONGEST_TO_CUT = 1024


class Part(msgspec.Struct, frozen=True):
    kind: str
    """"text", "variable" (`text` is its name) or "command" (a substitution or arithmetic, `text` is what stands in it)."""
    text: str
    raw: str

    @property
    def modifier(self) -> str:
        """What `${NAME...}` does to the variable's value, such as ":-/tmp", "%/*", "[@]"; empty for the value itself."""
        if self.kind != "variable" or not self.raw.startswith("${"):
            return ""
        before, _, behind = self.raw[2:-1].partition(self.text)
        return before + behind


class Word(msgspec.Struct, frozen=True, dict=True):
    """One word of a command."""

    parts: tuple[Part, ...]
    span: Span
    begin: int
    end: int

    @cached_property
    def text(self) -> str:
        """Without quotes; variables as `${NAME}`, substitutions as they are written."""
        return "".join(f"${{{p.text}}}" if p.kind == "variable" else p.raw for p in self.parts)

    @cached_property
    def is_literal(self) -> bool:
        return all(part.kind == "text" for part in self.parts)

    @property
    def is_all_of_an_array(self) -> bool:
        """`"${NAME[@]}"` and the like, which is several words."""
        return len(self.parts) == 1 and self.parts[0].modifier in ("[@]", "[*]")

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(part.text for part in self.parts if part.kind == "variable")

    @property
    def substitutions(self) -> tuple[str, ...]:
        """The text of each `$(...)` in it."""
        return tuple(part.text for part in self.parts if part.kind == "command")

    def split(self) -> "list[Word]":
        """As the shell splits an unquoted expansion at blanks."""
        words: list[list[Part]] = [[]]
        for part in self.parts:
            if part.kind != "text":
                words[-1].append(part)
                continue
            first, *others = re.split(r"\s+", part.text)
            for i, piece in enumerate([first, *others]):
                if i:
                    words.append([])
                if piece:
                    words[-1].append(Part("text", piece, piece))
        return [Word(tuple(parts), self.span, self.begin, self.end) for parts in words if parts]

    def with_values(self, value_of: Callable[[str], "Word | None"]) -> "Word":
        """With each variable replaced by its value, where that is known and what `${NAME...}` makes of it is, too."""
        if not self.variables:
            return self
        parts: list[Part] = []
        for part in self.parts:
            value = value_of(part.text) if part.kind == "variable" else None
            parts += [part] if value is None else modified(value.parts, part)
        if len(parts) > MOST_PARTS or sum(len(part.raw) for part in parts) > _LONGEST:
            return self
        return self.of(parts)

    def of(self, parts: Iterable[Part]) -> "Word":
        """Other parts at the same place."""
        return Word(tuple(_joined(parts)), self.span, self.begin, self.end)

    def beside(self, other: "Word", between: str = "") -> "Word":
        """One word of two, at the place of the first."""
        gap = (Part("text", between, between),) if between else ()
        return Word(tuple(_joined((*self.parts, *gap, *other.parts))), self.span, self.begin, other.end)


def modified(value: Sequence[Part], part: Part) -> Sequence[Part]:
    """What `${NAME...}` makes of a value; the variable itself where that cannot be told."""
    modifier = part.modifier
    if not modifier or modifier[:2] in (":-", ":=", ":?") or modifier[0] in "-=?" or modifier in ("[@]", "[*]", "[0]"):
        return value
    cut = _CUT.match(modifier)
    text = "".join(inner.text for inner in value)
    if cut is None or len(text) > _LONGEST_TO_CUT or any(inner.kind != "text" for inner in value):
        return (part,)
    pattern = re.compile(fnmatch.translate(cut[2]))
    at_end, is_long = cut[1][0] == "%", len(cut[1]) == 2
    places = range(len(text) + 1)
    for i in places if at_end == is_long else reversed(places):
        piece = text[i:] if at_end else text[:i]
        if pattern.match(piece):
            text = text[:i] if at_end else text[i:]
            break
    return (Part("text", text, text),)


def word_of(node: "Node", source: Source, base: int) -> Word:
    """The word that a node of the syntax tree is; `base` is where the parsed text begins in the source."""
    begin, end = base + node.start_byte, base + node.end_byte
    return Word(tuple(_joined(_parts(node, source, base))), source.span(begin, end), begin, end)


def _parts(node: "Node", source: Source, base: int, depth: int = 0) -> Iterator[Part]:
    raw = source.text(base + node.start_byte, base + node.end_byte)
    kind = node.type
    own = raw.lstrip() if kind.endswith(("expansion", "substitution")) else raw
    if len(own) < len(raw):
        # In a string the parser counts the blanks in front of an expansion as a part of it.
        blanks, raw = raw[: len(raw) - len(own)], own
        yield Part("text", blanks, blanks)
    if depth > _DEEPEST:
        yield Part("command", raw, raw)
    elif kind == "raw_string":
        yield Part("text", raw[1:-1], raw[1:-1])
    elif kind in ("simple_expansion", "expansion"):
        inside = [c for child in node.children for c in (child.children if child.type == "subscript" else (child,))]
        found = next((c for c in inside if c.type in ("variable_name", "special_variable_name")), None)
        name = source.text(base + found.start_byte, base + found.end_byte) if found is not None else ""
        match = _NAME.match(name)
        yield Part("variable", match[0] if match else name, raw)
    elif kind == "$" and raw == "$$":
        yield Part("variable", "$", raw)
    elif kind == "command_substitution":
        yield Part("command", raw[1:-1] if raw.startswith("`") else raw[2:-1], raw)
    elif kind in ("string", "translated_string", "concatenation", "command_name"):
        at = base + node.start_byte
        for child in node.children:
            # Blanks inside a string can stand between its nodes.
            gap = source.text(at, base + child.start_byte)
            if gap:
                yield Part("text", gap, gap)
            at = base + child.end_byte
            if child.type not in ('"', '$"'):
                yield from _parts(child, source, base, depth + 1)
    elif kind == "string_content":
        yield from _text_and_variables(raw, _ESCAPE_IN_QUOTES)
    elif kind == "ansi_c_string":
        yield Part("text", raw[2:-1], raw[2:-1])
    elif kind in ("process_substitution", "arithmetic_expansion"):
        yield Part("command", raw[2:-1], raw)
    elif kind == "array":
        for i, child in enumerate(child for child in node.children if child.is_named and child.type != "comment"):
            if i:
                yield Part("text", " ", " ")
            yield from _parts(child, source, base, depth + 1)
    else:
        yield from _text_and_variables(raw, _ESCAPE)


def _text_and_variables(raw: str, escape: re.Pattern[str]) -> Iterator[Part]:
    """Text, with the variables in it that the parser was not shown: see `parsable`."""
    at = 0
    for match in [*_INSIDE.finditer(raw), None]:
        text = raw[at : len(raw) if match is None else match.start()]
        if text or (match is None and not at):
            plain = escape.sub(_unescaped, text) if "\\" in text else text
            yield Part("text", plain, plain)
        if match is not None:
            yield Part("variable", match[1], match[0])
            at = match.end()


def parsable(data: bytes) -> bytes:
    """The same bytes, but `_NAME` for each `$NAME` that follows text in a word.

    tree-sitter-bash 0.25.1 takes `$A/$B.c` for `$A/$` and `B.c`.

    >>> parsable(b"X=$A/$B.c Y=$A$B Z=a\\\\$B")
    b'X=$A/_B.c Y=$A$B Z=a\\\\$B'
    """
    if b"$" not in data:
        return data
    changed = bytearray(data)
    end, was_hidden = -1, False
    for match in _NAMED.finditer(data):
        begin = match.start()
        # What stands right behind another variable's name is no text.
        was_hidden = was_hidden if begin == end else begin > 0 and data[begin - 1] in _IN_WORDS
        if was_hidden:
            changed[begin] = ord("_")
        end = match.end()
    return bytes(changed)


def _unescaped(match: re.Match[str]) -> str:
    return "" if match[1] == "\n" else match[1]


def _joined(parts: Iterable[Part]) -> list[Part]:
    joined: list[Part] = []
    for part in parts:
        if joined and joined[-1].kind == part.kind == "text":
            joined[-1] = Part("text", joined[-1].text + part.text, joined[-1].raw + part.raw)
        else:
            joined.append(part)
    return joined
