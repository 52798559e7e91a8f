"""What LAMMPS prints of a run, step by step: its logs as a series of printed values."""

from collections.abc import Iterable, Iterator
from pathlib import Path

_OF_TIME = {"CPU", "CPULeft", "Elapsed", "Elaplong", "S/CPU", "T/CPU", "Part"}
"""Columns that differ between any two runs, or count from the start of an attempt."""


def read_thermo(paths: Iterable[Path]) -> dict[int, dict[str, str]]:
    """{step: {column: value as printed}} from logs in the order in which they were written: of a step that is in several, the
    last counts. Steps behind the first one of a later log were lost with the attempt that wrote them."""
    series: dict[int, dict[str, str]] = {}
    for path in paths:
        first = None
        with path.open(encoding="latin-1") as file:
            for step, values in _rows(file):
                if first is None:
                    first = step
                    series = {old: kept for old, kept in series.items() if old < first}
                series[step] = values
    return dict(sorted(series.items()))


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    columns: list[str] = []
    for line in lines:
        words = line.split()
        if words[:1] == ["Step"] and not any(_is_number(word) for word in words):
            columns = words
        elif columns and len(words) == len(columns) and words[0].isdigit() and all(map(_is_number, words)):
            values = dict(zip(columns, words, strict=True))
            yield int(words[0]), {name: value for name, value in values.items() if name not in {"Step", *_OF_TIME}}
        elif line.startswith(("Loop time", "ERROR")):
            columns = []


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
