"""Words of a shell command: what is literal in them, and what the shell puts in. Pure."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from lastgood.audit.source import Source, Span

if TYPE_CHECKING:
    from tree_sitter import Node

_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_ESCAPE = re.compile(r"\\(\n|.)", re.DOTALL)


class Part(msgspec.Struct, frozen=True):
    kind: str
    """"text", "variable" (`text` is its name) or "command" (a substitution, `text` is what stands in it)."""
    text: str
    raw: str


class Word(msgspec.Struct, frozen=True):
    """One word of a command."""

    parts: tuple[Part, ...]
    span: Span
    begin: int
    end: int

    @property
    def text(self) -> str:
        """Without quotes; variables as `${NAME}`, substitutions as they are written."""
        return "".join(f"${{{p.text}}}" if p.kind == "variable" else p.raw for p in self.parts)

    @property
    def is_literal(self) -> bool:
        return all(part.kind == "text" for part in self.parts)

    @property
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

    def with_values(self, value_of: Callable[[str], "Word | None"], depth: int = 8) -> "Word":
        """With each variable replaced by its value, where that is known."""
        if depth == 0 or not self.variables:
            return self
        parts: list[Part] = []
        for part in self.parts:
            value = value_of(part.text) if part.kind == "variable" else None
            parts += [part] if value is None else value.with_values(value_of, depth - 1).parts
        return Word(tuple(parts), self.span, self.begin, self.end)


def word_of(node: "Node", source: Source, base: int) -> Word:
    """The word that a node of the syntax tree is; `base` is where the parsed text begins in the source."""
    begin, end = base + node.start_byte, base + node.end_byte
    return Word(tuple(_joined(_parts(node, source, base))), source.span(begin, end), begin, end)


def _parts(node: "Node", source: Source, base: int) -> Iterator[Part]:
    raw = source.text(base + node.start_byte, base + node.end_byte)
    kind = node.type
    if kind == "raw_string":
        yield Part("text", raw[1:-1], raw[1:-1])
    elif kind in ("simple_expansion", "expansion"):
        found = next((c for c in node.children if c.type in ("variable_name", "special_variable_name")), None)
        name = source.text(base + found.start_byte, base + found.end_byte) if found is not None else ""
        match = _NAME.match(name)
        yield Part("variable", match[0] if match else name, raw)
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
                yield from _parts(child, source, base)
    elif kind in ("string_content", "ansi_c_string", "process_substitution", "arithmetic_expansion", "array"):
        yield Part("text", raw, raw)
    else:
        plain = _ESCAPE.sub(lambda m: "" if m[1] == "\n" else m[1], raw) if "\\" in raw else raw
        yield Part("text", plain, plain)


def _joined(parts: Iterator[Part]) -> list[Part]:
    joined: list[Part] = []
    for part in parts:
        if joined and joined[-1].kind == part.kind == "text":
            joined[-1] = Part("text", joined[-1].text + part.text, joined[-1].raw + part.raw)
        else:
            joined.append(part)
    return joined
