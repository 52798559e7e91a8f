"""Questions to `gmx dump`, whose answers can be longer than memory: lines are looked at as they come, within a limit."""

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from lastgood.core.errors import StorageError
from lastgood.core.quoting import shown
from lastgood.core.signals import SIGKILL, signal_name

LIMIT_S = 1800.0
"""Of reading all of a checkpoint of some ten million atoms from slow storage."""
_MOST_WORDS = 100_000
_TRIES = 2


class Answer(msgspec.Struct, frozen=True):
    exit_code: int
    matches: list[tuple[str, str]]
    """The two groups of each line that was asked for, in order."""
    words: str
    """What it complained of."""


def ask_dump(gmx: Sequence[str], option: str, path: str, wanted: "re.Pattern[str]", limit_s: float = LIMIT_S) -> Answer:
    """What `gmx dump` says of a file. Raises StorageError where it was killed, twice, or gives no answer: that says
    nothing of the file."""
    for _ in range(_TRIES):
        answer = _ask_once([*gmx, "-quiet", "dump", option, path], wanted, limit_s)
        if answer.exit_code >= 0:
            return answer
    raise StorageError(
        f"gmx dump was ended by {signal_name(-answer.exit_code)} while it read {shown(path)}, {_TRIES} times",
        safe="nothing is known of that file; nothing was changed",
        remedy=f"run `gmx dump {option} {shown(path)}` by hand: memory may be short, or the storage may not answer",
    )


def _ask_once(command: Sequence[str], wanted: "re.Pattern[str]", limit_s: float) -> Answer:
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            # Not a pipe: nobody would read it before the answer is read.
            stderr=complaints,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ) as process,
    ):
        timer = threading.Timer(limit_s, _kill, [process.pid])
        timer.start()
        try:
            assert process.stdout is not None
            lines = (line.decode(errors="replace") for line in process.stdout)
            matches = [(match[1], match[2].strip()) for line in lines if (match := wanted.match(line))]
            code = process.wait()
        except BaseException:
            # Ctrl-C does not reach a session of its own.
            _kill(process.pid)
            raise
        finally:
            timer.cancel()
        complaints.seek(0)
        return Answer(code, matches, complaints.read(_MOST_WORDS).decode(errors="replace"))


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, SIGKILL)
