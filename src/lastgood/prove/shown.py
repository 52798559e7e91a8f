"""What one run of a proof showed, as values."""

from collections.abc import Sequence

import msgspec

from lastgood.core.accounting import Record
from lastgood.prove.checkpoint_state import StateDigest
from lastgood.prove.killing import Hit
from lastgood.prove.watching import Said, Stamp, Written
from lastgood.trial.place import Place
from lastgood.trial.target import Way

_LAST_LINES = 12


class Shown(msgspec.Struct, frozen=True):
    """What one run showed."""

    name: str
    place: Place
    way: Way
    began: float
    duration_s: float
    exit_code: int | None
    """Of the last start; None if the limit passed."""
    lines: list[Said]
    written: list[Written]
    temporary: list[Written]
    steps: list[tuple[float, int, int]]
    records: list[Record]
    hits: list[Hit]
    digests: dict[int, StateDigest]
    """Of checkpoints of our library, by step; empty where another way was taken."""
    baseline: dict[str, Stamp]
    """The files that were there before it began."""

    @property
    def is_finished(self) -> bool:
        return self.exit_code == 0

    @property
    def is_with_library(self) -> bool:
        """Our library runs in the program: it says itself how it started."""
        return any(record.first("started") is not None and not record.is_wrapped for record in self.records)

    def last_word(self) -> str:
        """The last line that the program itself has printed, or else our launcher; empty if nobody said anything."""
        said = [line.text.strip() for line in self.lines if line.text.strip()]
        own = [text for text in said if not text.startswith("lastgood: ")]
        return (own or said or [""])[-1]

    def last_lines(self, start: int | None = None) -> list[str]:
        said = [line.text for line in self.lines if start is None or line.start == start]
        return [text for text in said if text.strip()][-_LAST_LINES:]


def told_names(names: Sequence[str]) -> str:
    """The first three of them.

    >>> told_names(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
