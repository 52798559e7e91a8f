"""Commands that are Python with a script or a module: the ones that a standby can stand in for."""

import re
from collections.abc import Callable, Sequence

import msgspec

_INTERPRETER = re.compile(r"python(\d+(\.\d+)*t?)?\Z")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_WITH_VALUE = {"W", "X"}
_PLAIN = set("bBdEIOPqRsSuvx")
"""Options without a value that leave it a run of a script. (-i, -c, -h, -V do not.)"""


class PythonCommand(msgspec.Struct, frozen=True):
    """`python OPTIONS REST`, the REST beginning with a script, or with -m and a module."""

    interpreter: str
    options: list[str]
    rest: list[str]
    assigned: dict[str, str] = {}
    """Variables that `env` would set first."""

    @property
    def words(self) -> list[str]:
        return [self.interpreter, *self.options, *self.rest]

    @property
    def module(self) -> str:
        """Empty if it runs a script."""
        return self.rest[1] if self.rest[0] == "-m" else ""


def is_named_python(word: str) -> bool:
    return _INTERPRETER.match(_base(word)) is not None


def parse_python_command(
    command: Sequence[str], is_python: Callable[[str], bool] = is_named_python
) -> PythonCommand | None:
    """None if the command is anything else. `is_python` tells whether a word names an interpreter.

    >>> found = parse_python_command(["env", "A=1", "python3", "-u", "train.py", "--lr", "1"])
    >>> found.interpreter, found.options, found.rest, found.assigned
    ('python3', ['-u'], ['train.py', '--lr', '1'], {'A': '1'})
    >>> parse_python_command(["python", "-m", "pkg.train"]).module
    'pkg.train'
    >>> parse_python_command(["python", "-c", "pass"]), parse_python_command(["bash", "train.sh"])
    (None, None)
    """
    words = list(command)
    assigned: dict[str, str] = {}
    if words and _base(words[0]) == "env":
        words.pop(0)
        while words and _ASSIGNMENT.match(words[0]):
            name, _, value = words.pop(0).partition("=")
            assigned[name] = value
    if not words or not is_python(words[0]):
        return None
    end = _end_of_options(words)
    if end is None:
        return None
    return PythonCommand(words[0], words[1:end], words[end:], assigned)


def _end_of_options(words: list[str]) -> int | None:
    """Where the script or -m stands; None if there is no such thing."""
    at = 1
    while at < len(words):
        word = words[at]
        if word == "-m":
            return at if at + 1 < len(words) and words[at + 1] else None
        if not word.startswith("-"):
            return at if word else None
        if word == "--check-hash-based-pycs":
            at += 2
            continue
        width = _width(word)
        if width is None:
            return None
        at += width
    return None


def _width(word: str) -> int | None:
    """How many words an option takes; None if it is none that we know."""
    letters = word[1:]
    for place, letter in enumerate(letters):
        if letter in _WITH_VALUE:
            return 1 if place + 1 < len(letters) else 2
        if letter not in _PLAIN:
            return None
    return 1 if letters else None


def _base(word: str) -> str:
    return word.rpartition("/")[2]
