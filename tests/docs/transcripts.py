"""Comparing what a page shows with what a command printed: numbers as "a number", `...` for any lines."""

import re

_STAMP = re.compile(r"on \S+ at \S+Z")
_HEX = re.compile(r"\b[0-9a-f]{16}\b")
_NUMBER = re.compile(r"\d[\d.:]*")


def normalised(line: str) -> str:
    """A line without what differs from run to run."""
    line = _STAMP.sub("on host at time", _HEX.sub("<id>", line))
    line = re.sub(r"<1 ms", "0 s", line)
    line = re.sub(r"\d+ (?:h|min) (?=\d)", "", line)
    return re.sub(r"\s+", " ", _NUMBER.sub("#", line)).strip()


def matches(expected: list[str], got: list[str]) -> bool:
    """True if `got` is `expected`, where "..." stands for any number of lines."""
    if not expected:
        return not got
    if expected[0] == "...":
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and got[0] == expected[0] and matches(expected[1:], got[1:])
