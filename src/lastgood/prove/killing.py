"""A forced kill at a chosen moment, and whether it hit."""

import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
import psutil

from lastgood.core.signals import SIGKILL
from lastgood.prove.at_write import Aim, Tracer, wait_for_write
from lastgood.prove.plan_of_kills import Kill, Phase
from lastgood.prove.watching import Watch
from lastgood.trial.processes import is_alive
from lastgood.trial.target import Way
from lastgood.trial.trial import Sight, Trial

_DEATH_LIMIT_S = 10.0


class Hit(msgspec.Struct, frozen=True):
    """A kill that was tried."""

    kill: Kill
    is_hit: bool
    at: float
    """Seconds since 1970."""
    step: int | None
    """The newest step that was seen to be done before."""
    attempt: int
    """Which was killed."""
    detail: str
    """How it was done, or why it did not hit."""
    unsound: tuple[str, ...] = ()
    """Checkpoints that were not whole after it, each with what is wrong: "out/last.pt: it is empty"."""


Saves = Callable[[Watch, Sight], int]
"""How many checkpoints a trial has written so far."""


def carry_out(
    trial: Trial,
    watch: Watch,
    kill: Kill,
    saves: Saves,
    aim: Aim | None,
    last_step: int | None,
    limit_s: float,
    say: Callable[[Sight], None],
) -> Hit:
    """Wait for the moment, and kill every process of the command. `aim`: how it can be killed in the middle of a save; None:
    it is killed when the save is due. A kill after `last_step` has hit nothing."""
    end = time.monotonic() + limit_s

    def looked(sight: Sight) -> Sight:
        watch(sight)
        say(sight)
        return sight

    aim = aim.after(kill.save) if aim is not None and kill.phase is Phase.SAVE else None
    is_aimed = aim is not None
    ready = _ready(watch, kill, saves, is_aimed=is_aimed)
    victims = _Victims(trial)

    def is_time(sight: Sight) -> bool:
        if not ready(looked(sight)):
            victims.find_now_and_then()
            return False
        if not is_aimed:
            # At once: to find all of its processes takes a moment, in which it would go on.
            victims.suspend()
        return True

    sight = trial.wait_until(is_time, limit_s)
    if sight is None:
        return _missed(trial, looked(trial.look()), kill, end)
    how = "SIGKILL to all its processes"
    if aim is not None:
        struck = _at_write(trial, aim, end, looked)
        sight = looked(trial.look())
        if not struck:
            return _missed(trial, sight, kill, end)
        how = struck.replace(f"{trial.place.work}/", "")
    attempt = sight.attempt
    had_finished = trial.exit_code is not None and not is_aimed
    killed = [] if had_finished else _kill_all(trial)
    last = looked(trial.look())
    step = last.step if last.attempt == attempt and last.step is not None else sight.step
    problem = _problem(trial, attempt, killed, is_aimed=is_aimed)
    if not problem and step is not None and last_step is not None and step >= last_step:
        problem = f"it had done its last step, {step:,}, before the kill"
    return Hit(kill, not problem, time.time(), step, attempt, problem or how)


_LEAST_PAUSE_S = 0.5
_SHARE_OF_TIME = 20.0


class _Victims:
    """The processes of the command, as far as they were known a moment ago."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._found: list[psutil.Process] = []
        self._next_at = 0.0

    def find_now_and_then(self) -> None:
        """Looking through all processes of a machine takes long: no more than a small share of the time goes into it."""
        began = time.monotonic()
        if began < self._next_at:
            return
        self._found = self._trial.of_command()
        ended = time.monotonic()
        self._next_at = ended + max(_LEAST_PAUSE_S, _SHARE_OF_TIME * (ended - began))

    def suspend(self) -> None:
        for process in self._found:
            with suppress(psutil.Error):
                process.suspend()


def _ready(watch: Watch, kill: Kill, saves: Saves, *, is_aimed: bool) -> Callable[[Sight], bool]:
    since: list[float] = []

    def is_ready(sight: Sight) -> bool:
        count = saves(watch, sight)
        if is_aimed:
            return count >= kill.save - kill.lead
        if kill.step is not None:
            is_begun = sight.step is not None and sight.step >= kill.step
            return is_begun and (count > 0 or kill.phase is Phase.SAVE)
        if count < kill.save:
            return False
        since.append(sight.at)
        return sight.at - since[0] >= kill.after_s

    return is_ready


def _at_write(trial: Trial, aim: Aim, end: float, looked: Callable[[Sight], Sight]) -> str:
    """Kill a process of the command at its first call that the aim is at. How; empty if it made none."""
    work = str(trial.place.work)
    tracer = Tracer.attached(
        [process.pid for process in trial.of_command()], aim, work, trial.place.path / "strace.txt"
    )
    if tracer is None:
        written = wait_for_write(aim.paths, work, lambda: _is_over(trial, end))
        if written:
            _kill_all(trial)
        return f"SIGKILL when {written} was seen to be written" if written else ""
    with tracer:
        while not tracer.has_struck:
            if _is_over(trial, end) or not tracer.is_tracing:
                break
            looked(trial.look())
            time.sleep(0.005)
        return tracer.struck()


def _is_over(trial: Trial, end: float) -> bool:
    return time.monotonic() > end or trial.exit_code is not None


def _kill_all(trial: Trial) -> list[int]:
    """SIGKILL to every process of the command, and none of ours: the launcher and the keeper are another's failure."""
    victims = trial.of_command()
    for process in victims:
        # None of them may react to the death of another.
        with suppress(psutil.Error):
            process.suspend()
    for process in victims:
        with suppress(psutil.Error):
            process.send_signal(SIGKILL)
    pids = [process.pid for process in victims]
    end = time.monotonic() + _DEATH_LIMIT_S
    # Not psutil's wait: it would take the exit code, which the trial has to see.
    while any(is_alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.002)
    return pids


def _problem(trial: Trial, attempt: int, victims: list[int], *, is_aimed: bool) -> str:
    """Why the kill did not do what it should; empty if it did."""
    if not victims and not is_aimed:
        return "it had ended before the kill"
    if alive := [pid for pid in victims if is_alive(pid)]:
        return f"process {alive[0]} did not die of SIGKILL"
    if trial.way is Way.LASTGOOD:
        record = next((r for r in trial.records() if r.number == attempt), None)
        return "it had done all its steps before the kill" if record and record.last("finished") else ""
    end = time.monotonic() + _DEATH_LIMIT_S
    while trial.exit_code is None and time.monotonic() < end:
        time.sleep(0.005)
    if trial.exit_code is None:
        return "something of it lives on after SIGKILL"
    return "it had finished before the kill" if trial.exit_code == 0 else ""


def _missed(trial: Trial, sight: Sight, kill: Kill, end: float) -> Hit:
    if time.monotonic() > end:
        detail = "the moment did not come within the limit"
    elif kill.step is not None and kill.phase is Phase.BETWEEN:
        detail = f"it ended before step {kill.step} was seen"
    else:
        detail = "it ended before the moment came"
    return Hit(kill, False, time.time(), sight.step, sight.attempt, detail)
