"""Whether a script copies to shared storage what it keeps on a node, and when. Pure."""

import re
from enum import IntEnum

from lastgood.audit.batch.places import directory_of
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


def is_copied(script: BatchScript, root: Word, work: Command) -> Copied:
    """When the script copies something out of a directory; a program of its own in the background that knows the directory
    counts, too, because it may."""
    found = Copied.NEVER
    for command in script.commands:
        if command.begin == work.begin or not _takes_from(script, command, root):
            continue
        around = command.around
        is_meanwhile = around.within == "trap" or around.is_background or around.function or around.loops
        if is_meanwhile and not (around.loops and around.loops == work.around.loops):
            return Copied.MEANWHILE
        if command.begin > work.begin:
            found = Copied.AT_THE_END
    return found


def is_filled_before(script: BatchScript, root: Word, work: Command) -> bool:
    """True if the script puts something there before the work: the path may be one to read from."""
    for command in script.commands:
        if command.begin >= work.begin:
            break
        launch = script.launch(command)
        if launch.program in (*_COPIERS, *_FILLERS) and any(_is_below(word, root) for word in launch.words[1:]):
            return True
    return False


def _takes_from(script: BatchScript, command: Command, root: Word) -> bool:
    launch = script.launch(command)
    if not launch.words:
        return False
    if launch.program not in _COPIERS:
        return command.around.is_background and any(_is_below(word, root) for word in launch.words)
    sources = launch.words[1:] if launch.program in ("tar", "zip", "find") else launch.words[1:-1]
    names = [word for word in sources if not word.text.startswith("-")]
    if any(_is_below(word, root) for word in names):
        return True
    here = directory_of(script, command)
    return here is not None and _is_below(here, root) and any(_is_relative(word) for word in names)


def _is_relative(word: Word) -> bool:
    return not word.text.startswith(("/", "~", "$"))


def _is_below(word: Word, root: Word) -> bool:
    """True if a path is in a directory, or is one that holds it."""
    path, other = (_plain(w) for w in (word, root))
    return any(_starts(a, b) for a, b in ((path, other), (other, path)) if len(b) > 1)


def _starts(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")


def _plain(word: Word) -> str:
    return re.sub(r"/+", "/", word.text).rstrip("/*").removesuffix("/.")
