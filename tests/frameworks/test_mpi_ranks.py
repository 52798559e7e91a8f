"""Ranks of an MPI job, under a real mpirun: they save, stop and fail together, and none waits without end."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint

pytest.importorskip("mpi4py", reason="needs mpi4py")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("mpirun"), reason="needs mpirun")]

LIMIT_S = 180.0
OMPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # More ranks than cores.
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


class Mpirun:
    def __init__(self, directory: Path, number: int, *arguments: str | Path) -> None:
        self._output = directory / f"output-{time.monotonic_ns()}.txt"
        with self._output.open("w") as file:
            self.process = subprocess.Popen(
                ["mpirun", "-n", str(number), sys.executable, "-m", "frameworks.mpi_program", *map(str, arguments)],
                cwd=Path(__file__).parent.parent,
                env={**os.environ, **OMPI, "OMP_NUM_THREADS": "1", "LASTGOOD_KEEPER": "off"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait(self) -> int:
        return self.process.wait(LIMIT_S)

    def wait_for(self, pattern: str) -> str:
        end = time.monotonic() + LIMIT_S
        while (found := re.search(pattern, self.output)) is None:
            assert time.monotonic() < end, f"{pattern!r} never came:\n{self.output}"
            time.sleep(0.02)
        return found[1]


Start = Callable[..., Mpirun]


@pytest.fixture
def mpirun(tmp_path: Path) -> Iterator[Start]:
    """`mpirun(2, *arguments)`: starts ranks; what is left of them at the end is killed."""
    started = []

    def start(number: int, *arguments: str | Path) -> Mpirun:
        started.append(Mpirun(tmp_path, number, *arguments))
        return started[-1]

    yield start
    for run in started:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def steps_saved(path: Path) -> list[int]:
    return sorted(c.step for c in list_checkpoints(open_job(path)) if c.is_committed)


@pytest.mark.parametrize("read", ["each", "broadcast"])
def test_ranks_save_together_and_resume_together(mpirun: Start, tmp_path: Path, read: str) -> None:
    path = tmp_path / "job"
    first = mpirun(2, path, "leaves", read, "3s")
    first.wait()
    assert steps_saved(path) == [2], first.output
    checkpoint = open_checkpoint(open_job(path), list_checkpoints(open_job(path))[0].name)
    assert sum("common" in checkpoint.part(rank).shared for rank in (0, 1)) == 1, "stored once"
    second = mpirun(2, path, "", read, "30s")
    assert second.wait() == 0, second.output
    for rank in (0, 1):
        assert f"rank {rank} begins after step 2 with 3 {3 + rank}" in second.output
        assert f"rank {rank} ends with 21 {21 + rank}" in second.output
    assert steps_saved(path)[-1] == 6


def test_all_operations(mpirun: Start) -> None:
    run = mpirun(3, "agree")
    assert run.wait() == 0, run.output
    for rank in range(3):
        assert f"rank {rank} has agreed" in run.output
        assert f"rank {rank}: rank {rank} meets other ranks at different places of the program" in run.output


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_rank_stops_all_at_the_same_step(mpirun: Start, tmp_path: Path, rank: int) -> None:
    run = mpirun(2, tmp_path / "job", "long", "each", "60s")
    pid = int(run.wait_for(rf"rank {rank} is process (\d+)\n"))
    os.kill(pid, signal.SIGTERM)
    assert run.wait() == 75, run.output
    newest = list_checkpoints(open_job(tmp_path / "job"))[0]
    assert open_checkpoint(open_job(tmp_path / "job"), newest.name).verify() == []


def test_a_rank_that_raises_ends_the_job_at_once(mpirun: Start, tmp_path: Path) -> None:
    run = mpirun(2, tmp_path / "job", "raises", "each", "1h")
    assert run.wait() == 1, run.output
    assert "KeyError: 'of rank 1'" in run.output
    assert steps_saved(tmp_path / "job") == [2]


def test_an_error_of_all_ranks_is_no_abort(mpirun: Start, tmp_path: Path) -> None:
    run = mpirun(2, tmp_path / "job", "another place", "each", "1h")
    assert run.wait() == 2, run.output
    assert "at different" in run.output
    assert "MPI_ABORT" not in run.output


@pytest.mark.parametrize("how", ["hangs", "leaves", "break"])
def test_a_rank_that_does_not_come_is_waited_for_as_long_as_was_said_and_named(
    mpirun: Start, tmp_path: Path, how: str
) -> None:
    run = mpirun(2, tmp_path / "job", how, "each", "3s")
    assert run.wait() == 87, run.output
    assert "rank 0 waited for ranks 1 in vain: nothing was heard for 3 s" in run.output
    assert steps_saved(tmp_path / "job") == [2]


def test_a_rank_that_never_makes_its_run_is_not_waited_for_without_end(mpirun: Start) -> None:
    run = mpirun(2, "in turn")
    assert run.wait() == 87, run.output
    assert "rank 0 waited for other ranks in vain" in run.output


def test_a_killed_rank_ends_the_job_and_the_next_start_resumes(mpirun: Start, tmp_path: Path) -> None:
    run = mpirun(2, tmp_path / "job", "long", "each", "1h")
    os.kill(int(run.wait_for(r"rank 1 is process (\d+)\n")), signal.SIGKILL)
    assert run.wait() != 0
    step = steps_saved(tmp_path / "job")[-1]
    again = mpirun(2, tmp_path / "job", "leaves", "each", "3s")
    assert f"begins after step {step} " in again.wait_for(r"(rank 1 begins .*\n)")


def test_one_process_that_has_imported_mpi_is_one_rank(tmp_path: Path) -> None:
    program = (
        "import sys; from mpi4py import MPI; import lastgood; run = lastgood.Run({}, job=sys.argv[1], every=1);"
        "print(len(list(run.steps(2))), 'lastgood.frameworks.mpi_ranks' in sys.modules)"
    )
    environment = {**os.environ, **OMPI, "LASTGOOD_KEEPER": "off"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "job")],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout == "2 True\n", done.stderr
