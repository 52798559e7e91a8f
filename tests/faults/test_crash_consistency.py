"""A process is killed at every system call that it makes, one after the other; where those are many, at some of them.

After each kill somebody else looks: what was good before is good still, what was being made is whole or
does not exist, and the next attempt works and leaves nothing behind.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import states
from faults.nursery import Nursery
from faults.scale import MANY, evenly
from faults.stepping import assert_few, kill_at, trace
from lastgood.core.layout import REJECTED_FILE, checkpoint_name
from lastgood.core.retention import Keep
from lastgood.store import attempts, catalogue, jobdir, sweep
from lastgood.store.jobdir import JobDirectory

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("strace", "unflushed")]

Count = Callable[[int, str], None]


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    """One attempt, which has committed step 10."""
    job = jobdir.create_job(tmp_path / "origin")
    attempts.claim_attempt(job, "")
    states.write(job, 10, 1)
    return job


def _kill_everywhere(
    nursery: Nursery,
    log: Path,
    origin: Path,
    check: Callable[[Path], None],
    scenario: str,
    **arguments: object,
) -> int:
    """Kill the scenario at its calls, each time in a new copy of `origin`; the number of kills."""
    parent = log.parent / "copy"
    work = parent / "work"

    def prepare() -> None:
        shutil.rmtree(parent, ignore_errors=True)
        if origin.exists():
            shutil.copytree(origin, work, symlinks=True)

    prepare()
    calls = evenly(trace(nursery, log, scenario, job=str(work), **arguments), MANY)
    check(work)
    kills = 0
    survived = []
    for call in calls:
        prepare()
        if not kill_at(nursery, log, call, scenario, job=str(work), **arguments):
            survived.append(call)
            continue
        kills += 1
        try:
            check(work)
        except Exception as error:
            error.add_note(f"after a kill at call {kills} of {len(calls)}, {call}")
            raise
    assert_few(survived, calls)
    return kills


def _next_attempt_works(job: JobDirectory, step: int = 30) -> None:
    """A new attempt claims, sweeps, saves and retires; then exactly its checkpoint is left."""
    number = attempts.claim_attempt(job, "").attempt
    sweep.sweep_incomplete(job, number)
    states.write(job, step, number)
    sweep.Retention(job, Keep(last=1), number).apply()
    assert states.newest_good(job) == step
    assert [c.name for c in catalogue.list_checkpoints(job)] == [checkpoint_name(step, number)]
    assert states.leftovers(job) == []


def test_a_killed_save_leaves_the_old_or_the_new_checkpoint_whole(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    found = set()

    def check(path: Path) -> None:
        work = jobdir.open_job(path)
        found.add(states.newest_good(work))
        assert catalogue.list_checkpoints(work)[-1].is_committed, "the old one is gone"
        _next_attempt_works(work)

    count_points(_kill_everywhere(nursery, log, job.path, check, "save", step=20, attempt=1), "kills")
    assert found == {10, 20}


def test_killed_retention_leaves_the_newest_and_never_a_checkpoint_with_holes(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    states.write(job, 20, 1)
    states.write(job, 25, 1)

    def check(path: Path) -> None:
        work = jobdir.open_job(path)
        for listed in catalogue.list_checkpoints(work):
            assert not listed.is_committed or states.is_whole(work, listed.name), f"{listed.name} has holes"
        assert states.newest_good(work) == 25
        _next_attempt_works(work)

    count_points(_kill_everywhere(nursery, log, job.path, check, "retire", keep=1, attempt=1), "kills")


def test_killed_recovery_is_finished_by_the_next(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    _half_saved(job, 20)
    _half_saved(job, 25)
    attempts.claim_attempt(job, "")

    def check(path: Path) -> None:
        work = jobdir.open_job(path)
        assert states.newest_good(work) == 10
        _next_attempt_works(work)

    count_points(_kill_everywhere(nursery, log, job.path, check, "recover", attempt=2), "kills")


def _half_saved(job: JobDirectory, step: int) -> None:
    """What a save that was killed right before its commit leaves."""
    states.write(job, step, 1)
    manifest = job.checkpoints / checkpoint_name(step, 1) / "manifest.json"
    manifest.rename(manifest.with_name("manifest.json.part"))


def test_a_killed_first_start_leaves_a_directory_that_the_next_start_can_use(
    tmp_path: Path, nursery: Nursery, log: Path, count_points: Count
) -> None:
    def check(path: Path) -> None:
        work = jobdir.create_job(path)
        assert jobdir.create_job(path).id == work.id
        _next_attempt_works(work)

    kills = _kill_everywhere(nursery, log, tmp_path / "none", check, "start")
    count_points(kills, "kills")


def test_a_killed_second_start_changes_nothing_that_is_good(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    def check(path: Path) -> None:
        work = jobdir.create_job(path)
        assert work.id == job.id
        assert attempts.attempt_numbers(work) in ([1], [1, 2])
        assert states.newest_good(work) == 10
        _next_attempt_works(work)

    count_points(_kill_everywhere(nursery, log, job.path, check, "start"), "kills")


def test_a_killed_rejection_is_made_or_not_made(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    states.write(job, 20, 1)
    found = set()

    def check(path: Path) -> None:
        work = jobdir.open_job(path)
        newest = catalogue.list_checkpoints(work)[0]
        assert newest.rejected in ("", "a test says so")
        found.add(states.newest_good(work))
        catalogue.set_mark(work, newest.name, REJECTED_FILE, "again")
        assert states.newest_good(work) == 10
        _next_attempt_works(work)

    name = checkpoint_name(20, 1)
    count_points(_kill_everywhere(nursery, log, job.path, check, "reject", name=name), "kills")
    assert found == {10, 20}


def test_a_whole_attempt_killed_anywhere_is_carried_on_by_the_next(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    _half_saved(job, 15)

    def check(path: Path) -> None:
        work = jobdir.create_job(path)
        assert states.newest_good(work) in (10, 20)
        _next_attempt_works(work)

    count_points(_kill_everywhere(nursery, log, job.path, check, "whole_life", step=20), "kills")
