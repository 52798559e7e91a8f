"""How much memory may still be taken here: what the machine has left, and what the job's cgroup allows."""

from pathlib import Path

_RESERVE_BYTES = 256 * 2**20
"""What is never taken: other programs breathe, too."""

_UNLIMITED_BYTES = 2**60
"""cgroup v1 says "no limit" with a number near 2**63."""


def available_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that can be taken without pushing anything out, less a reserve; None if the machine does not say."""
    known = [size for size in (_of_machine(root), _of_cgroup(root)) if size is not None]
    return max(0, min(known) - _RESERVE_BYTES) if known else None


def _of_machine(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _of_cgroup(root: Path) -> int | None:
    """What the tightest memory limit above this process leaves."""
    rooms = [room for directory, is_v2 in _groups(root) if (room := _room(directory, is_v2)) is not None]
    return min(rooms, default=None)


def _groups(root: Path) -> list[tuple[Path, bool]]:
    """The memory cgroups of this process, from its own upwards, with whether each is of version 2."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        if line.count(":") < 2:
            continue
        _, controllers, path = line.split(":", 2)
        is_v2 = controllers == ""
        if not is_v2 and "memory" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("" if is_v2 else "memory")
        # In a container the path may be as seen from outside; its own group is then the mount itself.
        inside = Path(*(part for part in path.split("/") if part not in ("", ".", "..")))
        found += [(mount / part, is_v2) for part in (inside, *inside.parents)]
    return found


def _room(directory: Path, is_v2: bool) -> int | None:
    # Above memory.high a group is not killed, but slowed down until nothing moves.
    limit_files = ("memory.max", "memory.high") if is_v2 else ("memory.limit_in_bytes",)
    limits = [size for name in limit_files if (size := _number(directory / name)) is not None]
    usage = _number(directory / ("memory.current" if is_v2 else "memory.usage_in_bytes"))
    if not limits or usage is None or min(limits) >= _UNLIMITED_BYTES:
        return None
    return min(limits) - usage + _reclaimable(directory, is_v2)


def _reclaimable(directory: Path, is_v2: bool) -> int:
    """Page cache that the kernel gives back before it lets the group starve."""
    name = "inactive_file" if is_v2 else "total_inactive_file"
    try:
        for line in (directory / "memory.stat").read_text().splitlines():
            if line.split()[0] == name:
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return 0


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
