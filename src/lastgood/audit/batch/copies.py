"""Whether a script copies to shared storage what it keeps on a node, and when. Pure."""

import re
from enum import IntEnum

from lastgood.audit.batch.places import directory_of
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Word

_COPIERS = frozenset(
    """
    aws azcopy cp dcp find globus gsutil gcloud gzip mc mv msrsync parsync pigz rclone rsync s3cmd s5cmd scp sgather tar zip zstd
    """.split()
)
_FILLERS = ("ln", "unzip", "wget", "curl", "git", "sbcast")


class Copied(IntEnum):
    NEVER = 0
    AT_THE_END = 1
    """Behind the work: a job that is killed does not come to it."""
    MEANWHILE = 2
    """While the work runs, or in a trap."""


class Copies:
    """All that a script copies, looked at once."""

    def __init__(self, script: BatchScript) -> None:
        self._taken: list[tuple[Command, list[str]]] = []
        self._filled: list[tuple[Command, list[str]]] = []
        for command, launch in script.launches:
            words = [word for word in launch.words[1:] if not word.text.startswith("-")]
            if launch.program in (*_COPIERS, *_FILLERS):
                self._filled.append((command, [_plain(word) for word in words]))
            taken = _sources(script, command, launch)
            if taken:
                self._taken.append((command, [_plain(word) for word in taken]))

    def when(self, root: Word, work: Command) -> Copied:
        """When something is copied out of a directory; a program of its own in the background that knows the directory counts, too,
        because it may."""
        found, place = Copied.NEVER, _plain(root)
        for command, taken in self._taken:
            if command.begin == work.begin or not any(_touch(path, place) for path in taken):
                continue
            around = command.around
            is_meanwhile = around.within == "trap" or around.is_background or around.function or around.loops
            if is_meanwhile and not (around.loops and around.loops == work.around.loops):
                return Copied.MEANWHILE
            if command.begin > work.begin:
                found = Copied.AT_THE_END
        return found

    def is_filled_before(self, root: Word, work: Command) -> bool:
        """True if the script puts something there before the work: the path may be one to read from."""
        place = _plain(root)
        return any(
            command.begin < work.begin and any(_touch(path, place) for path in paths) for command, paths in self._filled
        )


def _sources(script: BatchScript, command: Command, launch: Launch) -> list[Word]:
    """What a command takes something from, with the working directory where that is relative."""
    if launch.program not in _COPIERS:
        return list(launch.words) if command.around.is_background else []
    words = launch.words[1:] if launch.program in ("tar", "zip", "find") else launch.words[1:-1]
    names = [word for word in words if not word.text.startswith("-")]
    here = directory_of(script, command) if any(not word.text.startswith(("/", "~", "$")) for word in names) else None
    return names if here is None else [*names, here]


def _touch(path: str, other: str) -> bool:
    """True if a path is in a directory, or is one that holds it."""
    return (len(other) > 1 and _starts(path, other)) or (len(path) > 1 and _starts(other, path))


def _starts(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")


def _plain(word: Word) -> str:
    return re.sub(r"/+", "/", word.text).rstrip("/*").removesuffix("/.")
