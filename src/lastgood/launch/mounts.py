"""The mounts that this process sees."""

import os
from pathlib import Path

MOUNTS_FILE = Path("/proc/self/mountinfo")


class Mount:
    """One line of /proc/self/mountinfo. Raises IndexError or ValueError for what is none."""

    def __init__(self, line: str) -> None:
        left, _, right = line.partition(" - ")
        fields = left.split()
        self.root = _unescaped(fields[3])
        self.point = Path(_unescaped(fields[4]))
        self.device = fields[2]
        self.type, _, options = right.split(" ", 2)
        self.options = options.split(" ")[-1].split(",")


def mounts() -> list[Mount]:
    """Raises OSError, or IndexError and ValueError where the kernel writes something else."""
    return [Mount(line) for line in MOUNTS_FILE.read_text(errors="surrogateescape").splitlines()]


def type_of(path: Path) -> str:
    """The kernel's name for the file system that a path is on; empty if that cannot be found out."""
    try:
        number = os.stat(path).st_dev
        resolved = path.resolve()
        found = [m for m in mounts() if m.device == f"{os.major(number)}:{os.minor(number)}"]
        # Some file systems (btrfs, overlay) give files another number than their mount has.
        found = found or [m for m in mounts() if resolved.is_relative_to(m.point)]
        return max(found, key=lambda m: len(m.point.parts)).type
    except (OSError, ValueError, IndexError):
        return ""


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
