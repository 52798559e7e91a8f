"""A drill under Slurm, without one: what waiting for nodes, and a job that does not come back, make of the answer."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastgood.drill import slurm
from lastgood.drill.fault import Answer, Call, Injected
from lastgood.drill.slurm_job import SlurmState
from lastgood.drill.spec import parse_spec
from lastgood.drill.whole import Drilled, Request
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import Sight

LIMIT_S = 100.0


class Clock:
    """Time that passes only while somebody sleeps, in steps that are long enough to get through a day."""

    def __init__(self) -> None:
        self.now = 1e6

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += 1.0


class Job:
    """What Slurm and the job's own output would show, by the clock. It does a step each second."""

    id = "7"

    def __init__(self, clock: Clock, starts_after_s: float, ends_after_s: float = 1e9) -> None:
        self._clock = clock
        self._starts_at = clock.now + starts_after_s
        self._ends_at = self._starts_at + ends_after_s
        self.place = SimpleNamespace(path=Path())
        self.is_gone = False
        self.again_at = 0.0

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *exc: object) -> None:
        """It is cancelled."""

    def submit(self) -> None:
        """It waits."""

    @property
    def state(self) -> SlurmState:
        if self._clock.now >= self._ends_at:
            return SlurmState("COMPLETED")
        is_running = self._clock.now >= self._starts_at and not self.is_gone
        return SlurmState("RUNNING" if is_running else "PENDING", nodes="n1")

    def ask_now(self) -> SlurmState:
        return self.state

    def look(self) -> Sight:
        now, is_running = self._clock.now, self.state.name == "RUNNING"
        step = int(now - self._starts_at) if is_running else None
        attempt = 2 if self.again_at else 1
        return Sight(now, 1, attempt, step, step, "", is_running, 0 if attempt == 1 else int(self.again_at - 1))

    def records(self) -> list[Any]:
        return []

    def newest_checkpoint(self) -> int | None:
        return 5

    def started_again_at(self, after: float) -> float | None:
        return None


@pytest.fixture
def drilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Drilled]:
    """A drill of such a job, in which a fault is done by `harm`."""

    def drill(harm: Callable[[Job], None], *, until_recovered: bool = False, **more: float) -> Drilled:
        clock = Clock()
        job = Job(clock, **more)

        class Fault:
            def __init__(self, *_: object) -> None:
                """All that it needs is the job."""

            def inject(self) -> Injected:
                harm(job)
                return Injected(clock.now, "it was hit")

            def took_effect(self, injected: Injected) -> bool:
                return True

            def heal(self) -> None:
                """Nothing outlives it."""

        monkeypatch.setattr(slurm, "time", clock)
        monkeypatch.setattr(slurm, "SlurmJob", lambda *_: job)
        monkeypatch.setattr(slurm, "SlurmFault", Fault)
        call = Call(Target(("true",), tmp_path / "user", limit_s=LIMIT_S), Way.LASTGOOD)
        (tmp_path / "user").mkdir()
        specs = (parse_spec("kill-rank@step=10"),)
        request = Request(call, specs, tmp_path, is_until_recovered=until_recovered)
        return slurm.run_slurm_drill(request, [], lambda _: None)

    return drill


def comes_back(job: Job) -> None:
    job.again_at = 10.0


def is_gone(job: Job) -> None:
    job.is_gone = True


def test_the_time_in_the_queue_is_not_the_jobs(drilled: Callable[..., Drilled]) -> None:
    done = drilled(comes_back, starts_after_s=50 * LIMIT_S, ends_after_s=LIMIT_S / 2)
    assert done.verdict.answer is Answer.PASS, done.verdict
    assert done.course is not None
    assert done.course.took_s < LIMIT_S


def test_a_job_that_never_starts_is_unknown(drilled: Callable[..., Drilled]) -> None:
    done = drilled(comes_back, starts_after_s=1e9)
    assert (done.verdict.answer, done.course) == (Answer.UNKNOWN, None)
    assert done.verdict.reason.startswith("it never started: it waited 24 h")


def test_a_job_that_has_come_through_is_ended_early_where_no_more_is_asked_for(drilled: Callable[..., Drilled]) -> None:
    done = drilled(comes_back, until_recovered=True, starts_after_s=0)
    assert done.verdict.answer is Answer.PASS, done.verdict
    assert done.course is not None
    assert done.course.is_ended_early


def test_a_job_that_does_not_come_back_fails_also_where_only_that_is_asked_for(drilled: Callable[..., Drilled]) -> None:
    done = drilled(is_gone, until_recovered=True, starts_after_s=0)
    assert done.verdict.answer is Answer.FAIL
    assert "it did not come back" in done.verdict.reason
    assert done.course is not None
    assert (done.course.is_over_limit, done.course.is_ended_early) == (True, False)
