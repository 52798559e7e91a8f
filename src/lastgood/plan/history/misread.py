"""What could not be understood: how often, and examples with their place. Nothing of it is counted in silence."""

import msgspec

MOST_EXAMPLES = 3


class Misread(msgspec.Struct):
    """Rows that are not used, for one reason."""

    what: str
    rows: int = 0
    examples: list[str] = []


class Misreadings:
    """All reasons, in the order in which they were met."""

    def __init__(self) -> None:
        self._found: dict[str, Misread] = {}

    def add(self, what: str, rows: int, examples: list[str]) -> None:
        found = self._found.setdefault(what, Misread(what))
        found.rows += rows
        found.examples = (found.examples + examples)[:MOST_EXAMPLES]

    @property
    def rows(self) -> int:
        return sum(found.rows for found in self._found.values())

    @property
    def all(self) -> list[Misread]:
        return list(self._found.values())


def quoted(text: str, most: int = 40) -> str:
    """A value of a file that anybody may have written, on one line.

    >>> quoted("a\\x1b[1m")
    "'a\\\\x1b[1m'"
    """
    return ascii(text if len(text) <= most else text[: most - 3] + "...")
