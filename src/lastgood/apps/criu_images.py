"""What CRIU has written of a program: one directory for each time, with what has to be so again for its restore.

criu-images/
  000001260/      after 1260 s of work; the newest two are kept
    *.img         CRIU's
    state.json    written by us: the size that each file had, which the program has open for writing
  stdout.txt, stderr.txt      of the program, which cannot keep a pipe to a launcher that dies
  finished.json   the program has ended with exit code 0
  save, stop      requests of the launcher
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from lastgood.store import durable

KEEPER = "lastgood-criu"
"""The name of the process that keeps the command, which may run in the same interpreter."""
DIRECTORY = "criu-images"
STATE = "state.json"
FINISHED = "finished.json"
SAVE, STOP = "save", "stop"
STREAMS = ("stdout.txt", "stderr.txt")
KEPT = 2
_MOST_BYTES = 2**24
_DIGITS = 9


class ImageState(msgspec.Struct, frozen=True):
    seconds: int
    """Of work, over all attempts."""
    pid: int
    command: list[str]
    images: dict[str, int]
    """CRIU's files and their sizes."""
    files: dict[str, int]
    """Those of the program that it has open for writing, and their sizes at that moment."""


def image_name(seconds: int) -> str:
    return f"{seconds:0{_DIGITS}d}"


def image_paths(directory: Path) -> list[Path]:
    """Those that were finished, the newest first."""
    with suppress(FileNotFoundError):
        found = [p for p in directory.iterdir() if p.name.isdigit() and len(p.name) == _DIGITS and p.is_dir()]
        return sorted(found, reverse=True)
    return []


def read_state(path: Path) -> ImageState:
    """Raises DamagedError or OSError, and msgspec.DecodeError for what is no such file."""
    return msgspec.json.decode(durable.read_file(path / STATE, _MOST_BYTES), type=ImageState)


def problem_of(path: Path, command: list[str]) -> str:
    """Why an image cannot be restored; empty if nothing speaks against it."""
    try:
        state = read_state(path)
    except FileNotFoundError:
        return f"it has no {STATE}"
    except msgspec.DecodeError as error:
        return f"{STATE}: {error}"
    if state.command != command:
        return "it is of another command"
    for name, size in state.images.items():
        try:
            there = (path / name).stat().st_size
        except FileNotFoundError:
            return f"{name} is missing"
        if there != size:
            return f"{name} has {there} bytes, not {size}"
    for name, size in state.files.items():
        try:
            if os.stat(name).st_size < size:
                return f"{name}, which the program writes, is shorter than it was then"
        except FileNotFoundError:
            return f"{name}, which the program writes, is gone"
    return ""


def open_for_writing(processes: Iterable[psutil.Process]) -> dict[str, int]:
    """The files that stopped processes have open for writing, with their sizes."""
    found: dict[str, int] = {}
    for process in processes:
        with suppress(psutil.Error):
            for file in process.open_files():
                if file.flags & (os.O_WRONLY | os.O_RDWR):
                    with suppress(FileNotFoundError):
                        found[file.path] = os.stat(file.path).st_size
    return found


def cut_back(state: ImageState) -> list[str]:
    """Bring the program's files to the size that CRIU insists on; which ones were longer, in words. What they held beyond
    it is done again."""
    cut = []
    for name, size in state.files.items():
        there = os.stat(name).st_size
        if there > size:
            os.truncate(name, size)
            if Path(name).name not in STREAMS:
                cut.append(f"{name} was cut back from {there} to {size} bytes: the rest is done again")
    return cut


def prune(directory: Path) -> None:
    """Delete all but the newest."""
    for path in image_paths(directory)[KEPT:]:
        # Its own file first: without it no image counts.
        for name in [STATE, *os.listdir(path)]:
            durable.delete_file(path / name)
        durable.delete_directory(path)
