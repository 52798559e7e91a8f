"""What an attempt's end left behind, gathered for core.outcome."""

import os
from pathlib import Path

from lastgood.core.errors import StartRefusedError
from lastgood.core.events import Event
from lastgood.launch.mounts import mounts

_CGROUP_FILE = Path("/proc/self/cgroup")


def oom_kills() -> int | None:
    """How many processes of our memory cgroup the kernel has killed so far; None if that is not shown.

    cgroup v2 counts descendants too (memory.events); v1 only the group itself (memory.oom_control).
    """
    for counter in _counters():
        try:
            for line in counter.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        except (OSError, ValueError):
            continue
    return None


def _counters() -> list[Path]:
    """Where our cgroup's counter may be, best place first."""
    found = []
    try:
        groups = [line.split(":", 2) for line in _CGROUP_FILE.read_text().splitlines() if line.count(":") >= 2]
        seen = mounts()
    except (OSError, ValueError, IndexError):
        return []
    for _, controllers, path in groups:
        if "memory" in controllers.split(","):
            kind, file = "cgroup", "memory.oom_control"
        elif controllers == "":
            kind, file = "cgroup2", "memory.events"
        else:
            continue
        for mount in seen:
            if mount.type == kind and (kind == "cgroup2" or "memory" in mount.options):
                # In a container the mount shows only a part of the tree: take what lies below its root.
                inside = os.path.relpath(path, mount.root) if path.startswith(mount.root) else "."
                found.append(mount.point / inside / file)
    return found


def ran_library(events: list[Event], *, has_ranks: bool) -> bool:
    """True if our library ran in the program: it kept heartbeats or wrote into the journal. `has_ranks`: some
    rank has made its heartbeat. A command whose checkpoints are its own speaks for itself."""
    if any(event.kind == "started" and event.data.get("is_wrapped") for event in events):
        return False
    return has_ranks or any(event.kind in ("started", "refused", "exception") for event in events)


def has_stopped(events: list[Event]) -> bool:
    """True if the program, when it ended, said that it stops after a step, because it was asked to."""
    last = [event for event in events if event.kind in ("started", "stopping", "exception")][-1:]
    return any(event.kind == "stopping" and "saved_step" in event.data for event in last)


def exceptions(events: list[Event]) -> tuple[str, ...]:
    """What the program itself reported as raised since it last started, as "Type: text", oldest first."""
    found: list[str] = []
    for event in events:
        if event.kind == "started":
            # Something below the launcher has started it again: what was raised before is history.
            found.clear()
        if event.kind == "refused":
            found.append(f"{StartRefusedError.__name__}: {event.data.get('reason', '')}")
        if event.kind == "exception":
            kind, text = event.data.get("type", ""), event.data.get("text", "")
            found.append(f"{kind}: {text}" if text else f"{kind}")
    return tuple(found)
