"""Out of memory: the trial runs in a memory cgroup of its own, and the kernel kills a process of the command there.

The whole trial is in the group, our launcher and the keeper included, as Slurm has it. At the injection the group gets a
limit a little above what it needs, and a process of ours takes what is left of that, until the kernel kills somebody. The
kernel is told to prefer the ranks and, where we may (CAP_SYS_RESOURCE), to spare the launcher, the keeper and our own
process (oom_score_adj). Right after that the limit is lifted and the memory given back: who starts again finds enough.
"""

import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from lastgood.core.errors import LastgoodError
from lastgood.core.units import byte_size, parse_byte_size
from lastgood.drill import cgroups
from lastgood.drill.ballast import NEVER_KILLED
from lastgood.drill.cgroups import MemoryGroup
from lastgood.drill.fault import Call, Fault, Injected, NoVictimError, Options, Scene
from lastgood.trial import processes
from lastgood.trial.trial import LOOK_S

_ALWAYS_FIRST = "1000"
_KILL_LIMIT_S = 60.0
_JOIN = 'echo $$ > "$1" && shift && exec "$@"'

_shared: dict[str, tuple[MemoryGroup, int]] = {}
"""The group of each trial, by its token, with how many faults use it: all of the trial is in one."""


class OutOfMemory(Fault):
    name: ClassVar[str] = "out-of-memory"
    options: ClassVar[Mapping[str, str]] = {
        "headroom": "how much more than now the limit allows, until our own process takes that (32MiB)",
    }

    def __init__(self, options: Options) -> None:
        self._headroom_bytes = parse_byte_size(options.text("headroom", "32MiB"))
        self._group: MemoryGroup | None = None
        self._ballast: subprocess.Popen[bytes] | None = None
        self._scores: dict[int, str] = {}

    def missing(self, call: Call) -> str:
        return cgroups.missing()

    def prepare(self, scene: Scene) -> None:
        token = scene.trial.token
        group, users = _shared.get(token) or (cgroups.make_group(f"lastgood-drill-{token}"), 0)
        _shared[token] = (group, users + 1)
        self._group = group
        scene.trial.precede(["/bin/sh", "-c", _JOIN, "sh", str(group.processes_file)])

    def inject(self, scene: Scene) -> Injected:
        group = self._group
        if group is None:
            raise NoVictimError("there is no group with a limit")
        ranks = {rank.pid: rank.number for rank in scene.trial.ranks()} if group.pids() else {}
        if not ranks:
            raise NoVictimError("no process of the command runs")
        self._spare(scene, set(ranks))
        before, needed = group.oom_kills(), group.needed()
        at, kills = self._squeeze(group, needed + self._headroom_bytes, scene)
        gone = _gone(ranks) if kills else ()
        if kills:
            # Whoever starts again finds the memory that there was.
            self._relieve()
        who = ", ".join(f"rank {ranks[pid]} (process {pid})" for pid in gone) or "a process of the command"
        return Injected(
            at,
            f"out of memory at {byte_size(needed + self._headroom_bytes)}: the kernel killed {who}"
            if kills
            else f"memory limited to {byte_size(needed + self._headroom_bytes)}: the kernel killed nobody",
            pids=gone,
            evidence={
                "group": str(group.path),
                "needed_bytes": needed,
                "limit_bytes": needed + self._headroom_bytes,
                "oom_kills": group.oom_kills() - before,
            },
        )

    def took_effect(self, scene: Scene, injected: Injected) -> bool:
        return int(injected.evidence["oom_kills"]) > 0

    def heal(self, scene: Scene) -> None:
        self._relieve()

    def take_down(self, scene: Scene) -> None:
        group, self._group = self._group, None
        if group is None:
            return
        _, users = _shared.pop(scene.trial.token)
        if users > 1:
            _shared[scene.trial.token] = (group, users - 1)
            return
        scene.trial.precede([])
        if not group.remove():
            raise LastgoodError(
                f"the group {group.path} cannot be removed: processes {group.pids()} are in it",
                remedy=f"end them, then rmdir {group.path}",
            )

    def _squeeze(self, group: MemoryGroup, limit_bytes: int, scene: Scene) -> tuple[float, int]:
        """(when, how many) the kernel killed. The limit is lifted at once after the first: until it is, the kernel goes on
        killing whenever the memory of the dead is not yet free."""
        before = group.oom_kills()
        group.limit(limit_bytes)
        counter = group.path / ("memory.events" if (group.path / "memory.events").exists() else "memory.oom_control")
        self._ballast = subprocess.Popen(
            [sys.executable, "-m", "lastgood.drill.ballast", group.processes_file, counter, str(limit_bytes * 2)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        looked = 0.0
        end = time.monotonic() + _KILL_LIMIT_S
        while (kills := group.oom_kills() - before) == 0 and time.monotonic() < end and self._ballast.poll() is None:
            time.sleep(0.0005)
            if time.monotonic() > looked + LOOK_S:
                # The job goes on meanwhile.
                scene.look()
                looked = time.monotonic()
        at = time.time()
        group.lift()
        return at, kills

    def _relieve(self) -> None:
        """Give back the memory, lift the limit, and nobody is spared any more."""
        ballast, self._ballast = self._ballast, None
        if ballast is not None:
            ballast.kill()
            ballast.communicate()
        for pid, score in self._scores.items():
            with suppress(OSError):
                _score_file(pid).write_text(score)
        self._scores.clear()
        if self._group is None:
            return
        for pid in self._group.pids():
            # Started meanwhile by one that was spared.
            with suppress(OSError):
                if _score_file(pid).read_text().strip() == NEVER_KILLED:
                    _score_file(pid).write_text("0")
        with suppress(OSError):
            self._group.lift()

    def _spare(self, scene: Scene, ranks: set[int]) -> None:
        """The kernel takes a rank, where it is we who say so. To spare a process needs root, to offer one does not."""
        for process in scene.trial.processes():
            is_rank = process.pid in ranks
            if is_rank or processes.is_of_ours(process):
                with suppress(OSError):
                    self._scores[process.pid] = _score_file(process.pid).read_text()
                    _score_file(process.pid).write_text(_ALWAYS_FIRST if is_rank else NEVER_KILLED)


def _score_file(pid: int) -> Path:
    return Path(f"/proc/{pid}/oom_score_adj")


def _gone(pids: Collection[int]) -> tuple[int, ...]:
    """Those that have died. The kernel's SIGKILL takes a moment."""
    end = time.monotonic() + 1.0
    while not (gone := tuple(pid for pid in pids if not processes.is_alive(pid))) and time.monotonic() < end:
        time.sleep(0.005)
    return gone
