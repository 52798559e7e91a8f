"""Get the bytes of a file that a user named, or say why not."""

import os
import stat
import sys
from typing import BinaryIO

from lastgood.audit.finding import Problem
from lastgood.audit.source import Source
from lastgood.core.units import byte_size

LIMIT_BYTES = 4_000_000
"""A slurm.conf with a line for each of ten thousand nodes has half of it."""


def load(path: str) -> Source | Problem:
    """A file as it is. Never waits for a pipe, never reads more than the limit."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        reason = "it is a link to nothing" if os.path.islink(path) else "there is no such file or directory"
        return Problem(path=path, message=reason, is_missing=True)
    except OSError as error:
        return Problem(path=path, message=f"cannot read it: {error.strerror or error}")
    except ValueError:
        return Problem(path=path, message="this is no path: it holds a null character", is_missing=True)
    with open(fd, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return Problem(path=path, message="it is no regular file; pipe it into `lastgood audit -`")
            return _take(path, file)
        except OSError as error:
            return Problem(path=path, message=f"cannot read it: {error.strerror or error}")


def find_include(near: str, path: str) -> Source | None:
    """What `Include` names in a slurm.conf: beside it, or anywhere."""
    found = load(os.path.join(os.path.dirname(near), path))
    return found if isinstance(found, Source) else None


def load_standard_input(name: str) -> Source | Problem:
    """All of it."""
    if sys.stdin is None:
        return Problem(path=name, message="standard input is closed")
    try:
        return _take(name, sys.stdin.buffer)
    except OSError as error:
        return Problem(path=name, message=f"cannot read standard input: {error.strerror or error}")


def _take(path: str, file: BinaryIO) -> Source | Problem:
    data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        limit = byte_size(LIMIT_BYTES)
        return Problem(path=path, message=f"it is larger than {limit}, more than is read of a file: not audited")
    return Source(path, data)
