"""One system with its directory: what it does undisturbed, a killed job to start from, and runs of a case."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from nine_faults import recorder
from nine_faults.processes import Forked, ForkServer, Spawned, kill_if_of, wait_until_none_of
from nine_faults.systems import JOBS, System
from nine_faults.trace import Life, Trace
from nine_faults.verdict import Outcome, Verdict, judge

TOTAL = 70
KILLED_AT = 47
NEWEST = 40
REFUSAL = 80
"""Exit code of lastgood for "a checkpoint was expected and none can be used"."""
LIMIT_S = 120.0
"""For one run of the command. It takes a few seconds; a busy machine is given time."""


@dataclass(frozen=True)
class Scale:
    """How much is tried."""

    kills: int = 10
    points: int | None = None
    """Kill points in a save; None for every one."""
    flips: int = 4


class NotTriedError(Exception):
    """This cell cannot be tried on this machine; says why."""


@dataclass
class Cell:
    """One fault with one system."""

    text: str
    is_right: bool | None
    """Nothing lost that was saved, nothing wrong unnoticed; None where that was not tried."""
    notes: list[str] = field(default_factory=list)
    """What happened in each case, for the JSON file."""


class Started:
    """A command that runs."""

    def __init__(self, process: Spawned | Forked, trace: Trace) -> None:
        self.process = process
        self.trace = trace

    def wait_for(self, condition: Callable[[Life], bool], limit_s: float = LIMIT_S) -> bool:
        """Until its newest life is so; False if the command ended before, or the time is up."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            lives = self.trace.read()
            if lives and condition(lives[-1]):
                return True
            if self.process.wait(0.003) is not None:
                lives = self.trace.read()
                return bool(lives) and condition(lives[-1])
        return False

    def finish(self, limit_s: float = LIMIT_S) -> Outcome:
        """Wait for its end, or put an end to it, and for the end of all that it has started: nobody works in its
        directory any more. Raises RuntimeError if somebody does not end."""
        code = self.process.wait(limit_s)
        if code is None:
            self.kill()
        wait_until_none_of(str(self.trace.path), limit_s)
        lives = self.trace.read()
        last = lives[-1] if lives else Life(0)
        return Outcome(code, last.resumed, last.last_step, last.final)

    def kill(self) -> None:
        self.process.kill()
        for life in self.trace.read():
            kill_if_of(life.pid, str(self.trace.path))
        wait_until_none_of(str(self.trace.path), LIMIT_S)


class Lab:
    def __init__(self, system: System, root: Path, scale: Scale) -> None:
        self.system = system
        self.scale = scale
        self.work = root / "work"
        """What a case may change. It is always at the same path, because some systems remember the path."""
        self.store = self.work / "store"
        self.root = root
        self._runs = 0
        self._resumes: dict[int, str | None] = {}
        self.clear()
        self._server = (
            None
            if system.is_launched
            else ForkServer(list(system.modules), {**os.environ, **self._environment()}, root / "forker.txt")
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def prepare(self) -> None:
        """Everything that cases are compared with or begin from. Raises RuntimeError if that does not work."""
        assert self.uninterrupted and self._base

    def start(self, *, total: int = TOTAL, restarts: bool = True, **options: Any) -> Started:
        """The command, on the work directory as it is. `options` are the recorder's: step_s, kill_at ..."""
        self._runs += 1
        trace, log = (self.root / f"run-{self._runs:04d}.{kind}" for kind in ("trace", "log"))
        environment = {recorder.STORE: str(self.store), recorder.TRACE: str(trace), recorder.TOTAL: str(total)}
        environment |= {f"BENCH_{name.upper()}": str(value) for name, value in options.items()}
        process: Spawned | Forked
        if self._server is None:
            command = self.system.command(self.store, restarts=restarts)
            process = Spawned(command, {**os.environ, **self._environment(), **environment}, log)
        else:
            process = self._server.start(JOBS / self.system.script, environment, log)
        return Started(process, Trace(trace))

    def settle(self, **options: Any) -> list[Outcome]:
        """Give the command as a user would: again, if it failed. Each try with what it came to."""
        tries = [self.start(**options).finish()]
        if tries[0].code != 0:
            tries.append(self.start(**options).finish())
        return tries

    def judge(self, tries: list[Outcome], *, had_saved: bool = True) -> Verdict:
        def judged(clean_resume: str | None) -> Verdict:
            return judge(
                tries,
                uninterrupted=self.uninterrupted.final or "",
                clean_resume=clean_resume,
                had_saved=had_saved,
                refusal=REFUSAL if self.system.is_ours else 0,
            )

        verdict = judged(None)
        if verdict.word == "DIVERGED" and verdict.step:
            return judged(self.clean_resume(verdict.step))
        return verdict

    @cached_property
    def uninterrupted(self) -> Life:
        """An undisturbed run. Raises RuntimeError if a second one ends with other weights."""
        first, second = self.run_from_nothing(), self.run_from_nothing()
        if first.final != second.final:
            raise RuntimeError("two undisturbed runs end with different weights: nothing can be compared")
        return first

    def run_from_nothing(self, **options: Any) -> Life:
        self.clear()
        started = self.start(**options)
        outcome = started.finish()
        if outcome.final is None:
            raise RuntimeError(f"an undisturbed run failed with {outcome.code}: see {started.trace.path}")
        return started.trace.lives[-1]

    def killed(self, at: int, **options: Any) -> Life:
        """Leaves the work directory of a job that was killed after step `at`; its life."""
        self.clear()
        started = self.start(restarts=False, kill_at=at, **options)
        outcome = started.finish()
        if outcome.code == 0 or outcome.last_step != at:
            raise RuntimeError(
                f"a job that kills itself after step {at} ended with {outcome.code}: {started.trace.path}"
            )
        return started.trace.lives[-1]

    @cached_property
    def _base(self) -> Path:
        self.killed(KILLED_AT)
        base = self.root / "base"
        shutil.copytree(self.work, base, symlinks=True)
        return base

    def restore(self) -> None:
        """The work directory of a job that was killed after step 47, whose newest checkpoint is step 40."""
        base = self._base
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(base, self.work, symlinks=True)

    def clear(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        for name in ("state", "tmp"):
            (self.work / name).mkdir(parents=True)

    def clean_resume(self, step: int) -> str | None:
        """Final weights after an undisturbed resume from that step; it leaves the work directory as it was.

        A step after the base's newest was saved by its second life, which may have seen other samples than
        the uninterrupted run.
        """
        if step not in self._resumes:
            kept = self.root / "kept"
            with contextlib.suppress(FileNotFoundError):
                self.work.rename(kept)
            at = step + KILLED_AT - NEWEST
            if step > NEWEST:
                self.restore()
                self.start(restarts=False, kill_at=at).finish()
            else:
                self.killed(at)
            outcome = self.start().finish()
            self._resumes[step] = outcome.final if outcome.resumed == step else None
            shutil.rmtree(self.work)
            with contextlib.suppress(FileNotFoundError):
                kept.rename(self.work)
        return self._resumes[step]

    def _environment(self) -> dict[str, str]:
        return {
            # The faults are of what is stored: nobody finds a snapshot in memory, as on another node.
            "LASTGOOD_KEEPER_LINGER": "0s",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(JOBS.parents[1]), os.environ.get("PYTHONPATH")])),
            "LASTGOOD_STATE_DIR": str(self.work / "state"),
            "TMPDIR": str(self.work / "tmp"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
        }
