"""Stops: SIGTERM with a grace period, as at the end of an allocation, and a rank that stands still, as in a hang."""

import time
from contextlib import suppress
from typing import ClassVar

import psutil

from lastgood.core.signals import SIGSTOP, SIGTERM
from lastgood.core.units import duration, parse_duration
from lastgood.drill.fault import Calm, Fault, Injected, NoVictimError, Options, Scene
from lastgood.drill.faults.kills import chosen_rank, process_of
from lastgood.drill.stopped import let_go
from lastgood.trial.processes import end_all, is_alive
from lastgood.trial.target import Way

_RUN_GRACE_S = 30.0
"""What `lastgood run` gives its command where nothing else is said."""
_SCHEDULERS_SHARE_S = 5.0
"""What a launcher needs of the grace time for itself, at most."""
_START_FACTOR = 3.0
_SILENCE_FACTOR = 10.0
_LEAST_HANG_S = 5.0
_HANG_WITHOUT_CALM_S = 30.0


def _as_written(seconds: float) -> str:
    """
    >>> _as_written(3600.0), _as_written(7.5)
    ('3600s', '7.5s')
    """
    return f"{round(seconds, 2):.12g}s"


class Terminate(Fault):
    """Preemption, or the end of the time: SIGTERM, a while later SIGKILL to all that is left, then the next start."""

    name = "terminate"
    options: ClassVar = {"grace": "time between SIGTERM and SIGKILL (default: 10s)"}

    def __init__(self, options: Options) -> None:
        self._grace_s = options.duration_s("grace", "10s")
        if self._grace_s <= 0:
            raise options.wrong("grace", duration(self._grace_s), "more than nothing")

    def run_options(self, calm: Calm) -> tuple[str, ...]:
        """The launcher has to be done before the scheduler's patience is."""
        own_s = self._grace_s - min(_SCHEDULERS_SHARE_S, self._grace_s / 4)
        return () if own_s >= _RUN_GRACE_S else ("--grace", _as_written(max(own_s, 0.1)))

    def inject(self, scene: Scene) -> Injected:
        victim = scene.trial.pid
        if not is_alive(victim):
            raise NoVictimError("nothing was running that could be told to stop")
        start = scene.look()
        at = time.time()
        for pid in _told(scene):
            with suppress(psutil.Error):
                psutil.Process(pid).send_signal(SIGTERM)
        scene.go_on()
        ended = scene.wait_until(lambda sight: not sight.is_running, self._grace_s)
        took_s = time.time() - at
        code = scene.trial.exit_code
        left = end_all(scene.trial.token)
        if ended is None:
            scene.wait_until(lambda sight: not sight.is_running, 5.0)
        evidence = {
            "step_at_signal": start.step,
            "ended_after_s": took_s if ended is not None else None,
            "exit_code": code,
            "was_killed": ended is None,
            "would_not_die": left,
        }
        whom = "the launcher" if scene.trial.way is Way.LASTGOOD else "the command"
        how = f"ended after {duration(took_s)} with exit code {code}" if ended else "SIGKILL at the end of the grace"
        if scene.trial.way is not Way.LASTGOOD or code != 0:
            scene.start_again("its allocation had ended")
        what = f"SIGTERM to {whom} (process {victim}), grace {duration(self._grace_s)}: {how}"
        return Injected(at, what, (victim,), evidence=evidence)

    def took_effect(self, scene: Scene, injected: Injected) -> bool | None:
        return injected.evidence["ended_after_s"] is not None or bool(injected.evidence["was_killed"])


def _told(scene: Scene) -> list[int]:
    """Who gets the signal: the launcher alone, which passes it on; a bare command as a whole, as slurmd does it."""
    if scene.trial.way is Way.LASTGOOD:
        return [scene.trial.pid]
    return [process.pid for process in scene.trial.of_command()]


class Freeze(Fault):
    """A hang: one rank stands still, and only a watchdog can tell."""

    name = "freeze"
    options: ClassVar = {
        "which": "first, last, random or a number (default: random)",
        "limit": "--hang-timeout that the launcher gets (default: from the undisturbed run)",
    }

    def __init__(self, options: Options) -> None:
        self._which = options.text("which", "random")
        if self._which not in ("first", "last", "random") and not self._which.isdigit():
            raise options.wrong("which", self._which, "first, last, random or the number of a rank")
        limit = options.text("limit", "")
        self._limit_s = parse_duration(limit) if limit else 0.0
        self._frozen: list[psutil.Process] = []

    def run_options(self, calm: Calm) -> tuple[str, ...]:
        """The learned limit of a launcher is minutes at least: a drill would wait for it."""
        if self._limit_s:
            limit_s = self._limit_s
        elif calm.start_s:
            limit_s = max(_LEAST_HANG_S, _START_FACTOR * calm.start_s, _SILENCE_FACTOR * calm.longest_silence_s)
        else:
            limit_s = _HANG_WITHOUT_CALM_S
        return ("--hang-timeout", _as_written(limit_s))

    def inject(self, scene: Scene) -> Injected:
        rank = chosen_rank(scene, self._which)
        victim = process_of(rank)
        at = time.time()
        self._frozen.append(victim)
        victim.send_signal(SIGSTOP)
        scene.go_on(but=[victim.pid])
        sight = scene.look()
        evidence = {"rank": rank.number, "step": sight.step, "saved_step": sight.saved_step}
        return Injected(at, f"SIGSTOP to rank {rank.number} (process {rank.pid})", (rank.pid,), evidence=evidence)

    def took_effect(self, scene: Scene, injected: Injected) -> bool | None:
        try:
            return psutil.Process(injected.pids[0]).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            # Found to hang and killed meanwhile.
            return True

    def heal(self, scene: Scene) -> None:
        let_go(self._frozen)
        self._frozen.clear()
