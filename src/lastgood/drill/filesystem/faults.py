"""The disk on which the checkpoints are fills up, fails or becomes slow.

Each is a FUSE file system of ours over the directory of the job, or of the program's own checkpoints: set up before the
command is first started, out of the way until the fault is injected, and again once it is healed.
"""

import errno
import os
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from lastgood.core.units import byte_size, duration, parse_byte_size
from lastgood.drill.fault import Call, Consequence, Fault, Injected, NoVictimError, Options, Scene
from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.disk import FaultyDisk
from lastgood.trial.place import Place
from lastgood.trial.target import RUN, Target, Way

_WHERE = ("auto", "job", "work", "checkpoints")
_WHERE_MEANS = (
    "what lies on that disk: job (the job directory), work (all that the command works in), checkpoints (the directory "
    "of --checkpoints), auto (checkpoints where they are given, else job or, with --app or without our launcher, work)"
)
_FOR = "how long it lasts (10s; 0s: until the end of the drill)"
_OPERATIONS = ("write", "fsync", "rename", "create", "open", "read", "truncate", "unlink", "mkdir", "link", "change")

_shared: dict[Path, tuple[FaultyDisk, int]] = {}
"""Disks that are mounted, with how many faults use them: one is not mounted twice on a directory."""


class DiskFault(Fault):
    """What the three have in common. Two of them on one directory share the disk: healing one heals the other."""

    consequence = Consequence.GO_ON

    def __init__(self, options: Options) -> None:
        self._where = options.choice("where", "auto", _WHERE)
        self.lasts_s = options.duration_s("for", "10s") or None
        self._path: Path | None = None
        self._number = 0

    def missing(self, call: Call) -> str:
        if self._where == "checkpoints" and not call.target.checkpoints:
            return "where=checkpoints needs --checkpoints"
        if self._where == "job" and call.way is not Way.LASTGOOD:
            return "where=job needs our launcher: without it there is no job directory"
        return mounting.missing()

    def prepare(self, scene: Scene) -> None:
        trial = scene.trial
        path = _directory(self._where, trial.target, trial.way, trial.place)
        # The drill looks all the time, by what lies on that disk: only what the job asks of it counts.
        disk, users = _shared.get(path, (FaultyDisk(path, spared_pid=os.getpid()), 0))
        disk.open()
        _shared[path] = (disk, users + 1)
        self._path = path

    def inject(self, scene: Scene) -> Injected:
        disk = self._disk
        if disk is None or self._path is None:
            raise NoVictimError("the disk was not set up")
        at = time.time()
        self._number = self.spoil(disk)
        return Injected(at, f"{self.words()} ({self._path.name}/)", paths=(str(self._path),), evidence=self.evidence())

    @abstractmethod
    def spoil(self, disk: FaultyDisk) -> int:
        """Begin with it; the number that the disk gives it."""

    @abstractmethod
    def words(self) -> str:
        """What happens to the disk, for a person."""

    def evidence(self) -> dict[str, Any]:
        return {}

    def took_effect(self, scene: Scene, injected: Injected) -> bool:
        return (disk := self._disk) is not None and disk.was_felt(self._number)

    def heal(self, scene: Scene) -> None:
        if (disk := self._disk) is not None:
            disk.heal()

    def take_down(self, scene: Scene) -> None:
        path, self._path = self._path, None
        if path is None or path not in _shared:
            return
        disk, users = _shared.pop(path)
        if users > 1:
            _shared[path] = (disk, users - 1)
        else:
            disk.close()

    @property
    def _disk(self) -> FaultyDisk | None:
        return _shared[self._path][0] if self._path in _shared else None


class DiskFull(DiskFault):
    name: ClassVar[str] = "disk-full"
    options: ClassVar[Mapping[str, str]] = {
        "left": "how much space is left at first (0)",
        "for": _FOR,
        "where": _WHERE_MEANS,
    }

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._left_bytes = parse_byte_size(options.text("left", "0"))

    def spoil(self, disk: FaultyDisk) -> int:
        return disk.fill(self._left_bytes)

    def words(self) -> str:
        return f"{byte_size(self._left_bytes)} are left on the disk" if self._left_bytes else "the disk is full"


class DiskSlow(DiskFault):
    name: ClassVar[str] = "disk-slow"
    options: ClassVar[Mapping[str, str]] = {
        "delay": "how much longer each call that changes something takes (50ms)",
        "bandwidth": "bytes in a second, of reading and writing together (as it is)",
        "for": _FOR,
        "where": _WHERE_MEANS,
    }

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        bandwidth = options.text("bandwidth", "")
        self._bytes_per_s = parse_byte_size(bandwidth.removesuffix("/s")) if bandwidth else 0
        self._delay_s = options.duration_s("delay", "" if bandwidth else "50ms")

    def spoil(self, disk: FaultyDisk) -> int:
        return disk.slow(self._delay_s, bytes_per_s=self._bytes_per_s)

    def words(self) -> str:
        slow = [f"each change takes {duration(self._delay_s)} longer"] if self._delay_s else []
        slow += [f"no more than {byte_size(self._bytes_per_s)} in a second"] if self._bytes_per_s else []
        return f"the disk is slow: {', '.join(slow)}"


class DiskError(DiskFault):
    name: ClassVar[str] = "disk-error"
    options: ClassVar[Mapping[str, str]] = {
        "operation": f"which call fails (write): {', '.join(_OPERATIONS)} (any that changes something)",
        "nth": "which one of them, counted from the injection (1)",
        "count": "how many fail from there on (1)",
        "error": "EIO, or another of errno's names (EIO)",
        "for": _FOR,
        "where": _WHERE_MEANS,
    }

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._operation = options.choice("operation", "write", _OPERATIONS)
        self._nth = options.count("nth", 1, least=1)
        self._count = options.count("count", 1, least=1)
        self._error = options.choice("error", "EIO", tuple(sorted(errno.errorcode.values())))

    def spoil(self, disk: FaultyDisk) -> int:
        return disk.fail(self._operation, getattr(errno, self._error), nth=self._nth, count=self._count)

    def words(self) -> str:
        name = "change" if self._operation == "change" else self._operation
        which = f"{name} {self._nth}" if self._count == 1 else f"{name} {self._nth} to {self._nth + self._count - 1}"
        return f"{which} from here on answered with {self._error}"


def _directory(where: str, target: Target, way: Way, place: Place) -> Path:
    """The directory that becomes such a disk; of --checkpoints the deepest that exists before the first start."""
    if where == "auto":
        # An application's checkpoints lie among its files.
        is_ours = way is Way.LASTGOOD and "--app" not in target.options
        where = "checkpoints" if target.checkpoints else "job" if is_ours else "work"
    if where == "job":
        return place.job
    if where == "work":
        return place.work
    return checkpoint_directory(target.checkpoints, place.work)


def checkpoint_directory(pattern: str, work: Path) -> Path:
    """The deepest existing directory that holds all that the pattern can match; `work` itself if that is above it."""
    found = work
    for part in Path(pattern.replace(RUN, str(work))).parts[:-1]:
        if any(letter in part for letter in "*?[") or not (found / part).is_dir():
            break
        found = found / part
    return found
