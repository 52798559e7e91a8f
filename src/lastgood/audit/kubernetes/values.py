"""Values of a YAML document with their places, read only where they are asked for.

Nothing is built from the document's tags, and an alias is followed when it is looked at: neither can do harm.
"""

from collections.abc import Iterator

import yaml

from lastgood.audit.kubernetes.templates import UNKNOWN
from lastgood.audit.source import Source, Span

_MERGES = 8
_MOST = 1000
"""Entries of one list or mapping that are looked at: aliases can make a small file as long as they like."""
_TRUE = ("true", "yes", "on", "y")


class Value:
    """A mapping, list or text of the document."""

    def __init__(self, source: Source, node: yaml.Node, base: int, key: yaml.Node | None = None) -> None:
        self.source = source
        self.node = node
        self.base = base
        """Lines of the file in front of the document."""
        self.key = key
        """The node that names it in the mapping that it was taken from."""

    def get(self, *keys: str) -> "Value | None":
        """What stands under these keys, one in the other; None if it is not there, or twice in a template."""
        found: Value | None = self
        for key in keys:
            found = found._one(key) if found is not None else None
        return found

    def has(self, *keys: str) -> bool:
        return self.get(*keys) is not None

    def items(self) -> "Iterator[tuple[str, Value]]":
        """Keys and values of a mapping; nothing if it is none."""
        if isinstance(self.node, yaml.MappingNode):
            for key, value in self.node.value[:_MOST]:
                if isinstance(key, yaml.ScalarNode):
                    yield key.value, Value(self.source, value, self.base, key)

    def elements(self, *keys: str) -> "list[Value]":
        """What a list holds; nothing if it is none."""
        found = self.get(*keys)
        if found is None or not isinstance(found.node, yaml.SequenceNode):
            return []
        return [Value(self.source, node, self.base) for node in found.node.value[:_MOST]]

    def text(self, *keys: str) -> str:
        """A scalar as text; empty if it is not there, or null."""
        found = self.get(*keys)
        if found is None or not isinstance(found.node, yaml.ScalarNode):
            return ""
        is_plain = found.node.style is None
        return "" if is_plain and found.node.value in ("null", "~", "Null", "NULL") else found.node.value

    def known(self, *keys: str) -> str:
        """The same, empty also if a part of it is filled in later."""
        text = self.text(*keys)
        return "" if UNKNOWN in text or text.startswith("$") else text

    def number(self, key: str, default: int | None = None) -> int | None:
        """A whole number; `default` if the key is not there or null, None if it is filled in later."""
        found = self.get(key)
        if found is None:
            return None if self._count(key) else default
        text = found.text().strip()
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            return None

    def is_true(self, *keys: str) -> bool:
        return self.text(*keys).lower() in _TRUE

    @property
    def span(self) -> Span:
        """Its place; for what is longer than a line, its first line."""
        return self._span(self.node, self.node)

    @property
    def with_key(self) -> Span:
        """From its key on, to the end of the value if that is on the same line."""
        return self.span if self.key is None else self._span(self.key, self.node)

    def _one(self, key: str, depth: int = 0) -> "Value | None":
        if not isinstance(self.node, yaml.MappingNode) or depth > _MERGES:
            return None
        found = [
            Value(self.source, value, self.base, name)
            for name, value in self.node.value
            if isinstance(name, yaml.ScalarNode) and name.value == key
        ]
        if found:
            # Two of them are the branches of a template's condition.
            return found[0] if len(found) == 1 else None
        for name, value in self.node.value:
            if isinstance(name, yaml.ScalarNode) and name.value == "<<":
                merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for node in merged[:_MERGES]:
                    inherited = Value(self.source, node, self.base)._one(key, depth + 1)
                    if inherited is not None:
                        return inherited
        return None

    def _count(self, key: str) -> int:
        if not isinstance(self.node, yaml.MappingNode):
            return 0
        return sum(isinstance(name, yaml.ScalarNode) and name.value == key for name, _ in self.node.value)

    def _span(self, first: yaml.Node, last: yaml.Node) -> Span:
        begin, end = first.start_mark, last.end_mark
        line = min(self.base + begin.line + 1, self.source.line_count)
        width = len(self.source.line(line).rstrip())
        column = min(begin.column + 1, width + 1)
        if end.line == begin.line and end.column > begin.column:
            return Span(line, column, line, max(min(end.column + 1, width + 1), column))
        return Span(line, column, line, width + 1)
