"""Find the files that a script names, as far as their paths can be followed."""

import os
import re
import stat
from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.python.program import Program
from lastgood.audit.source import Source

_LIMIT_BYTES = 2 << 20
_LEVELS_UP = 4
_FROM_HERE = re.compile(r"\$\{(?:SLURM_SUBMIT_DIR|PWD)\}/+")
"""Where a job begins; that is where people submit it."""


class Programs:
    """Python programs by the path that a script names them with. Each is read and parsed once."""

    def __init__(self) -> None:
        self._scripts: dict[str, list[BatchScript]] = {}
        self._parsed: dict[tuple[int, int], Program | None] = {}
        self.found: dict[str, None] = {}
        """Paths of all that were found, in order."""

    def begin(self, path: str, scripts: list[BatchScript]) -> None:
        """From now on, what is asked for beside `path` is asked for by these scripts."""
        self._scripts = {path: scripts}
        self.found = {}

    def find(self, near: str, path: str) -> Program | None:
        """See Context.find_program."""
        path = _FROM_HERE.sub("", path)
        if not path.endswith(".py") or "\0" in path or "$" in path:
            return None
        for directory in self._directories(near):
            found = self._parse(os.path.normpath(os.path.join(directory, path)))
            if found is not None:
                return found
            if os.path.isabs(path):
                break
        return None

    def read_text(self, near: str, path: str) -> str | None:
        """See Context.read_text."""
        if not path or "\0" in path or "$" in path:
            return None
        for directory in self._beside(near):
            text = _text_of(os.path.join(directory, path))
            if text is not None:
                return text
        return None

    def _beside(self, near: str) -> Iterator[str]:
        """The directories that a script moves to, and its own."""
        beside = os.path.dirname(near) or "."
        for script in self._scripts.get(near, []):
            for target in _moves(script):
                yield os.path.join(beside, target)
        yield beside

    def _directories(self, near: str) -> Iterator[str]:
        yield from self._beside(near)
        above = os.path.join(os.path.dirname(near) or ".", "..")
        for _ in range(_LEVELS_UP):
            yield above
            above = os.path.join(above, "..")

    def _parse(self, path: str) -> Program | None:
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LIMIT_BYTES:
                return None
            identity = (status.st_dev, status.st_ino)
            if identity not in self._parsed:
                self._parsed[identity] = _read(path)
        except (OSError, ValueError):
            return None
        parsed = self._parsed[identity]
        if parsed is not None:
            self.found[parsed.path] = None
        return parsed


def _read(path: str) -> Program | None:
    with open(path, "rb") as file:
        data = file.read(_LIMIT_BYTES)
    try:
        return Program(Source(path, data))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _text_of(path: str) -> str | None:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LIMIT_BYTES:
            return None
        with open(path, "rb") as file:
            return file.read(_LIMIT_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _moves(script: BatchScript) -> Iterator[str]:
    """Where a script goes to, as far as that is written down."""
    chdir = script.header.value("chdir")
    if chdir and "%" not in chdir:
        yield chdir
    for command in script.commands:
        if command.name in ("cd", "pushd") and len(command.words) == 2:
            target = script.resolve(command.words[1])
            if target.is_literal:
                yield target.text
