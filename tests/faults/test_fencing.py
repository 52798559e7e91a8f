"""An old attempt is frozen after every system call of its save and woken after a newer one has committed.

It changes nothing of the newer attempt's: it is told that it is fenced, or, where it had passed its last
check before the newer one began, leaves one more whole checkpoint of its own.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults import states
from faults.nursery import Nursery
from faults.stepping import Call, Frozen, assert_few, trace
from lastgood.core.errors import FencedError
from lastgood.core.layout import checkpoint_name
from lastgood.core.retention import Keep
from lastgood.store import attempts, catalogue, jobdir, sweep
from lastgood.store.jobdir import JobDirectory

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("strace", "unflushed")]

Count = Callable[[int, str], None]


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    job = jobdir.create_job(tmp_path / "origin")
    attempts.claim_attempt(job, "")
    states.write(job, 10, 1)
    return job


def _freeze_everywhere(
    nursery: Nursery,
    log: Path,
    origin: Path,
    meanwhile: Callable[[JobDirectory], object],
    check: Callable[[JobDirectory, int], None],
    scenario: str,
    **arguments: object,
) -> int:
    """Freeze the scenario after each of its calls, do something else meanwhile, wake it, check with its
    exit code; the number of times."""
    work = log.parent / "work"

    def prepare() -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(origin, work)

    prepare()
    calls = trace(nursery, log, scenario, job=str(work), **arguments)
    missed = []
    for call in calls:
        prepare()
        frozen = Frozen(nursery, log, call, scenario, job=str(work), **arguments)
        if not frozen.is_stopped:
            missed.append(call)
            continue
        job = jobdir.open_job(work)
        try:
            meanwhile(job)
            before = _files(job)
        finally:
            code = frozen.wake()
        try:
            _assert_nothing_else_changed(job, before)
            check(job, code)
        except Exception as error:
            error.add_note(f"frozen at {_which(calls, call)}; its exit code was {code}")
            raise
    assert_few(missed, calls)
    return len(calls) - len(missed)


def _which(calls: list[Call], call: Call) -> str:
    return f"call {calls.index(call) + 1} of {len(calls)}, {call}"


def _files(job: JobDirectory) -> dict[str, bytes]:
    return {str(p.relative_to(job.path)): p.read_bytes() for p in job.path.rglob("*") if p.is_file()}


def _assert_nothing_else_changed(job: JobDirectory, before: dict[str, bytes]) -> None:
    """Of what the newer attempt has made, or relies on, nothing was touched."""
    after = _files(job)
    for name, content in before.items():
        is_newer = name.startswith(("attempts/0002", f"checkpoints/{checkpoint_name(30, 2)}", "job.json"))
        if is_newer:
            assert after.get(name) == content, f"{name} of the newer attempt was changed"


def _newer_attempt(job: JobDirectory) -> None:
    number = attempts.claim_attempt(job, "").attempt
    sweep.sweep_incomplete(job, number)
    states.write(job, 30, number)
    sweep.Retention(job, Keep(last=2), number).apply()


def test_a_save_that_was_frozen_anywhere_changes_nothing_of_the_newer_attempt(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    codes = set()

    def check(work: JobDirectory, code: int) -> None:
        codes.add(code)
        assert states.newest_good(work) == 30
        old = {c.name: c for c in catalogue.list_checkpoints(work)}.get(checkpoint_name(20, 1))
        is_committed = old is not None and old.is_committed
        # It says that it was fenced, unless its commit was done before the newer attempt looked.
        assert code == (0 if is_committed else FencedError.exit_code)
        assert not is_committed or states.is_whole(work, checkpoint_name(20, 1))
        _third_attempt_tidies(work)

    points = _freeze_everywhere(nursery, log, job.path, _newer_attempt, check, "save", step=20, attempt=1)
    count_points(points, "frozen saves")
    assert codes == {0, FencedError.exit_code}


def _third_attempt_tidies(job: JobDirectory) -> None:
    number = attempts.claim_attempt(job, "").attempt
    sweep.sweep_incomplete(job, number)
    assert states.leftovers(job) == []


def test_retention_of_an_old_attempt_deletes_nothing_that_a_newer_one_keeps(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    states.write(job, 20, 1)

    def meanwhile(work: JobDirectory) -> None:
        number = attempts.claim_attempt(work, "").attempt
        states.write(work, 25, number)
        states.write(work, 30, number)

    def check(work: JobDirectory, code: int) -> None:
        steps = [c.step for c in catalogue.list_checkpoints(work) if c.is_committed]
        assert steps[:2] == [30, 25], "it kept only its own last one"
        assert 20 in steps
        assert code in (0, FencedError.exit_code)
        assert 10 in steps or code == 0
        assert states.newest_good(work) == 30

    count_points(
        _freeze_everywhere(nursery, log, job.path, meanwhile, check, "retire", keep=1, attempt=1), "frozen retentions"
    )


def test_a_sweep_that_was_frozen_anywhere_deletes_nothing_of_the_newer_attempt(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    states.write(job, 20, 1)
    (job.checkpoints / checkpoint_name(20, 1) / "manifest.json").unlink()

    def check(work: JobDirectory, code: int) -> None:
        assert code == 0
        assert states.newest_good(work) == 30

    points = _freeze_everywhere(nursery, log, job.path, _newer_attempt, check, "recover", attempt=2)
    count_points(points, "frozen sweeps")


def test_a_claim_that_was_frozen_anywhere_takes_a_number_of_its_own(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    def meanwhile(work: JobDirectory) -> None:
        for _ in range(2):
            number = attempts.claim_attempt(work, "newer").attempt
            sweep.sweep_incomplete(work, number)

    def check(work: JobDirectory, code: int) -> None:
        assert code == 0
        launches = [attempts.read_attempt(work, n) for n in attempts.attempt_numbers(work)]
        assert [a.launch for a in launches if a].count("newer") == 2
        assert [a.attempt for a in launches if a] == [1, 2, 3, 4]

    count_points(_freeze_everywhere(nursery, log, job.path, meanwhile, check, "start"), "frozen claims")
