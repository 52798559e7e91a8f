"""SIGKILL: of a rank, of everything that the command runs, of the keeper, of the launcher."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import psutil

from lastgood.core.signals import SIGKILL
from lastgood.drill.fault import Call, Consequence, Fault, Injected, NoVictimError, Options, Scene
from lastgood.drill.stopped import stopped
from lastgood.trial.processes import is_alive
from lastgood.trial.target import Way
from lastgood.trial.trial import Rank

_LEAVE_S = 30.0
"""What the processes of a command get to end when their launcher is gone, before they are ended: as slurmd does it."""
_DIE_S = 5.0
"""What the kernel gets to take killed processes away."""


class _Kill(Fault):
    def took_effect(self, scene: Scene, injected: Injected) -> bool | None:
        return not any(is_alive(pid) for pid in injected.pids)


class KillRank(_Kill):
    name = "kill-rank"
    options: ClassVar = {"which": "first, last, random or a number (default: first)"}

    def __init__(self, options: Options) -> None:
        self._which = options.text("which", "first")
        if self._which not in ("first", "last", "random") and not self._which.isdigit():
            raise options.wrong("which", self._which, "first, last, random or the number of a rank")

    def inject(self, scene: Scene) -> Injected:
        rank = chosen_rank(scene, self._which)
        with stopped([process_of(rank)]):
            # It stands still, so that the step that it had reached is the last one that was seen.
            sight = scene.look()
            at = _kill([rank.pid])
        evidence = {"rank": rank.number, "step": sight.step, "saved_step": sight.saved_step}
        evidence["newest_step"] = _newest_step(scene, [rank.pid])
        return Injected(at, f"SIGKILL to rank {rank.number} (process {rank.pid})", (rank.pid,), evidence=evidence)


class KillGroup(_Kill):
    name = "kill-group"

    def inject(self, scene: Scene) -> Injected:
        processes = scene.trial.of_command()
        if not processes:
            raise NoVictimError("no process of the command was running")
        with stopped(processes):
            sight = scene.look()
            pids = [process.pid for process in processes]
            at = _kill(pids)
        what = f"SIGKILL to all {len(pids)} processes of the command" if len(pids) > 1 else "SIGKILL to the command"
        return Injected(
            at,
            f"{what} ({'processes' if len(pids) > 1 else 'process'} {_listed(pids)})",
            tuple(pids),
            evidence={"step": sight.step, "saved_step": sight.saved_step, "newest_step": _newest_step(scene, pids)},
        )


class KillKeeper(_Kill):
    name = "kill-keeper"
    consequence = Consequence.GO_ON

    def missing(self, call: Call) -> str:
        if call.way is not Way.LASTGOOD:
            return "a keeper runs beside programs that use lastgood under `lastgood run`: leave --again out"
        is_foreign = call.target.checkpoints or "--app" in call.target.options
        return "only programs that use lastgood have a keeper" if is_foreign else ""

    def inject(self, scene: Scene) -> Injected:
        keeper = scene.trial.keeper()
        if keeper is None:
            raise NoVictimError("no keeper was running: does the program use lastgood?")
        sight = scene.look()
        at = _kill([keeper.pid])
        evidence = {"step": sight.step, "saved_step": sight.saved_step}
        return Injected(at, f"SIGKILL to the keeper (process {keeper.pid})", (keeper.pid,), evidence=evidence)


class KillLauncher(_Kill):
    """The command saves and stops when its launcher is gone. What then starts the job again waits for that."""

    name = "kill-launcher"

    def missing(self, call: Call) -> str:
        return "" if call.way is Way.LASTGOOD else "no launcher of ours runs the command: leave --again out"

    def inject(self, scene: Scene) -> Injected:
        launcher = scene.trial.launcher()
        if launcher is None:
            raise NoVictimError("the launcher was not running")
        at = _kill([launcher.pid])
        scene.go_on()
        end = time.monotonic() + _LEAVE_S
        while (left := scene.trial.of_command()) and time.monotonic() < end:
            scene.look()
            time.sleep(0.02)
        _kill([process.pid for process in left])
        took_s = time.time() - at
        evidence = {"command_left_after_s": took_s, "had_to_be_killed": [process.pid for process in left]}
        scene.start_again("its launcher was killed")
        return Injected(at, f"SIGKILL to the launcher (process {launcher.pid})", (launcher.pid,), evidence=evidence)


def chosen_rank(scene: Scene, which: str) -> Rank:
    """Raises NoVictimError if there is none, or none of that number."""
    ranks = scene.trial.ranks()
    if not ranks:
        raise NoVictimError("no rank was running")
    if which.isdigit():
        found = next((rank for rank in ranks if rank.number == int(which)), None)
        if found is None:
            raise NoVictimError(
                f"there is no rank {which}: ranks {_listed([rank.number for rank in ranks])} were running"
            )
        return found
    return {"first": ranks[0], "last": ranks[-1]}.get(which) or scene.random.choice(ranks)


def process_of(rank: Rank) -> psutil.Process:
    """Raises NoVictimError if it has ended meanwhile."""
    try:
        return psutil.Process(rank.pid)
    except psutil.NoSuchProcess:
        raise NoVictimError(f"rank {rank.number} ended before it could be hit") from None


def _kill(pids: Sequence[int]) -> float:
    """When it was done: before that, no harm was."""
    at = time.time()
    for pid in pids:
        with suppress(psutil.Error):
            psutil.Process(pid).send_signal(SIGKILL)
    return at


def _newest_step(scene: Scene, killed: Sequence[int]) -> int | None:
    """The newest step by the name of a checkpoint: the next start goes on from none that is newer. None if nothing tells, or
    others live who may save yet."""
    scene.wait_until(lambda sight: not any(is_alive(pid) for pid in killed), _DIE_S)
    if scene.trial.of_command():
        return None
    return max((saved.step for saved in scene.checkpoints() if saved.step is not None), default=None)


def _listed(numbers: Sequence[int], most: int = 4) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most} more"
