"""Real RELION: killed, stopped, damaged, and at the end what its own `--continue` from the same iterations gives."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lastgood.apps.relion import Relion
from lastgood.launch.process import name_of
from launch.conftest import LIMIT_S, Ended, Launcher, launcher, wait_for  # noqa: F401 - a fixture

from .conftest import HERE, assert_loss_is_known, need
from .held import Holds

pytestmark = pytest.mark.slow

ITERATIONS = 6
OPTIONS = (
    "--o out/run --i particles.star --K 2 --particle_diameter 80 --tau2_fudge 2 --flatten_solvent --zero_mask "
    "--oversampling 1 --psi_step 12 --offset_range 4 --offset_step 2 --norm --scale --j 1 --pool 3 "
    "--dont_combine_weights_via_disc --random_seed 7 --pipeline_control out/"
).split()
REFINE = (
    "--o out/run --auto_refine --split_random_halves --i particles.star --ref reference.mrc --ini_high 40 --sym C1 "
    "--particle_diameter 80 --flatten_solvent --zero_mask --oversampling 0 --healpix_order 0 --low_resol_join_halves 40 "
    "--auto_local_healpix_order 0 --offset_range 2 --offset_step 2 --norm --scale --j 1 --pool 3 --random_seed 7 "
    "--dont_combine_weights_via_disc"
).split()
HEADER_BYTES = 1024
"""Of a file of images: it holds the date."""


def refine(place: Path, *more: str) -> None:
    """RELION alone, without a launcher."""
    command = ["relion_refine", *OPTIONS, *more]
    subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=LIMIT_S)


@pytest.fixture(scope="session")
def particles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("relion_refine", "RELION")
    place = tmp_path_factory.mktemp("particles")
    subprocess.run([sys.executable, HERE / "relion" / "make_input.py", place], check=True, timeout=LIMIT_S)
    return place


def lay_out(particles: Path, place: Path) -> None:
    for path in particles.iterdir():
        shutil.copy2(path, place)
    (place / "out").mkdir()


@pytest.fixture(scope="session")
def undisturbed(particles: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the same classification gives when nothing happens to it and nobody of us is there."""
    place = tmp_path_factory.mktemp("undisturbed")
    lay_out(particles, place)
    refine(place, "--iter", str(ITERATIONS))
    return place


class Classification:
    """One job in a directory of its own, with the same particles as all others."""

    def __init__(self, launcher: Launcher) -> None:  # noqa: F811
        self.launcher = launcher
        self.directory = launcher.directory
        self.out = self.directory / "out"
        self.holds = Holds(launcher, "relion_refine", "--o")

    def hold(self, iteration: int, *, is_read_before: bool = False) -> int:
        """The next start where it begins to write an iteration: its first file is there, and empty."""
        return self.holds.add("openat", 1 + is_read_before, f"out/run_it{iteration:03d}_optimiser.star")

    def words(self, *more: str, iterations: int = ITERATIONS, options: tuple[str, ...] = ()) -> list[str]:
        return ["--app", "relion", *options, "--", "relion_refine", *OPTIONS, "--iter", str(iterations), *more]

    def run(self, *more: str, iterations: int = ITERATIONS, options: tuple[str, ...] = ()) -> Ended:
        return self.launcher.run(*self.words(*more, iterations=iterations, options=options))

    def start(self, *more: str, iterations: int = ITERATIONS) -> "subprocess.Popen[bytes]":
        return self.launcher.start(*self.words(*more, iterations=iterations))

    def file(self, iteration: int, what: str) -> Path:
        return self.out / f"run_it{iteration:03d}_{what}"

    def take(self, undisturbed: Path, last: int) -> None:
        """The files of a run that ended behind an iteration."""
        take_iterations(undisturbed, self.out, last)

    def process(self) -> psutil.Process:
        """The RELION that runs."""

        def find() -> psutil.Process | None:
            assert self.launcher.processes[-1].poll() is None, self.launcher.output(-1, "err")
            return next((p for p in self.launcher.survivors() if name_of(p) == "relion_refine"), None)

        found: psutil.Process = wait_for(find, "relion_refine")
        return found

    def wait_for_iteration(self, iteration: int) -> None:
        wait_for(lambda: self.file(iteration, "sampling.star").exists(), f"iteration {iteration}")


@pytest.fixture
def classification(launcher: Launcher, particles: Path) -> Classification:  # noqa: F811
    lay_out(particles, launcher.directory)
    return Classification(launcher)


def take_iterations(place: Path, out: Path, last: int) -> None:
    for path in (place / "out").iterdir():
        number = re.match(r"run_it(\d+)_", path.name)
        if number and int(number[1]) <= last:
            shutil.copy2(path, out)


def assert_same(out: Path, expected: Path, iteration: int) -> None:
    names = sorted(path.name for path in expected.glob(f"run_it{iteration:03d}_*"))
    assert len(names) == 5
    for name in names:
        is_image = name.endswith(".mrcs")
        skipped = HEADER_BYTES if is_image else 0
        have, want = (out / name).read_bytes()[skipped:], (expected / name).read_bytes()[skipped:]
        if name.endswith("optimiser.star"):
            # Its second line is the command.
            have, want = (b"".join(text.splitlines()[2:]) for text in (have, want))
        assert have == want, name


def continued(particles: Path, undisturbed: Path, place: Path, iteration: int) -> Path:
    """What RELION's own `--continue` makes of an iteration of the undisturbed run."""
    place.mkdir()
    lay_out(particles, place)
    take_iterations(undisturbed, place / "out", iteration)
    refine(place, "--iter", str(ITERATIONS), "--continue", f"out/run_it{iteration:03d}_optimiser.star")
    return place / "out"


def test_undisturbed_it_ends_with_what_the_program_alone_gives(
    classification: Classification, undisturbed: Path
) -> None:
    ended = classification.run()
    assert ended.code == 0 and f"step {ITERATIONS} of {ITERATIONS} is reached" in ended.err
    assert_same(classification.out, undisturbed / "out", ITERATIONS)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_after_an_iteration_it_goes_on_from_the_newest_whole_one(
    classification: Classification, particles: Path, undisturbed: Path, number: signal.Signals
) -> None:
    hold = classification.hold(3)
    process = classification.start()
    classification.holds.wait(hold).send_signal(number)
    # Any other signal than SIGKILL is heard of when it runs.
    classification.holds.let_go(hold)
    assert classification.launcher.end_of(process).code == 0
    assert classification.launcher.outcomes() == ["killed", "finished"]
    step = classification.launcher.event(2, "started")["step"]
    assert step > 0
    assert_loss_is_known(classification.launcher)
    expected = continued(particles, undisturbed, classification.directory / "again", step)
    assert_same(classification.out, expected, ITERATIONS)


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_a_random_moment_it_goes_on_from_the_newest_whole_iteration(
    classification: Classification, particles: Path, undisturbed: Path, seed: int
) -> None:
    process = classification.start()
    relion = classification.process()
    wait_for(lambda: classification.file(0, "optimiser.star").exists(), "the first file")
    time.sleep(random.Random(seed).uniform(0.0, 1.0))
    with suppress(psutil.NoSuchProcess):
        relion.send_signal((signal.SIGKILL, signal.SIGTERM)[seed % 2])
    ended = classification.launcher.end_of(process)
    assert ended.code == 0
    outcomes = classification.launcher.outcomes()
    assert outcomes in (["killed", "finished"], ["finished"])
    step = classification.launcher.event(2, "started")["step"] if len(outcomes) > 1 else 0
    if step:
        assert_loss_is_known(classification.launcher)
    expected = undisturbed / "out"
    if step:
        expected = continued(particles, undisturbed, classification.directory / "again", step)
    assert_same(classification.out, expected, ITERATIONS)


def test_one_iteration_per_process_gives_the_same_whatever_kills_it(
    classification: Classification, particles: Path
) -> None:
    reference = classification.directory / "reference"
    reference.mkdir()
    lay_out(particles, reference)
    for iteration in range(1, 5):
        given = ["--continue", f"out/run_it{iteration - 1:03d}_optimiser.star"] if iteration > 1 else []
        refine(reference, "--iter", str(iteration), *given)
    for iteration in range(1, 5):
        hold = classification.hold(iteration) if iteration == 3 else None
        process = classification.start(iterations=iteration)
        if hold is not None:
            classification.holds.wait(hold).kill()
        assert classification.launcher.end_of(process).code == 0
    assert "killed" in classification.launcher.outcomes()
    assert_same(classification.out, reference / "out", 4)


def test_killed_again_while_it_writes_its_checkpoint_anew_it_loses_at_most_one_iteration(
    classification: Classification, particles: Path, undisturbed: Path
) -> None:
    classification.take(undisturbed, 3)
    hold = classification.hold(3, is_read_before=True)
    process = classification.start()
    relion = classification.holds.wait(hold)
    assert classification.file(3, "optimiser.star").stat().st_size == 0
    relion.kill()
    assert classification.launcher.end_of(process).code == 0
    step = classification.launcher.event(2, "started")["step"]
    assert step in (2, 3)
    expected = continued(particles, undisturbed, classification.directory / "again", step)
    assert_same(classification.out, expected, ITERATIONS)


def cut_at_the_end_of_a_line(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"\n", 0, len(data) * 2 // 3) + 1])


def cut_in_a_line(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3 + 1)


def leave_rows_out(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-12] + lines[-1:]))


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("name", "damage", "words"),
    [
        ("data.star", cut_at_the_end_of_a_line, "the end of run_it004_data.star is missing"),
        ("data.star", leave_rows_out, "run_it004_data.star has 49 particles, particles.star has 60"),
        ("classes.mrcs", halve, "run_it004_classes.mrcs has 2816 bytes, its header says 5632"),
        ("classes.mrcs", zero, "run_it004_classes.mrcs has no header of an image file"),
        ("model.star", cut_in_a_line, "the end of run_it004_model.star is missing"),
        ("optimiser.star", empty, "run_it004_optimiser.star is empty"),
        ("optimiser.star", Path.unlink, "run_it004_optimiser.star is missing"),
        ("sampling.star", zero, "the end of run_it004_sampling.star is missing"),
        ("sampling.star", Path.unlink, "run_it004_sampling.star is missing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_newest_iteration_is_put_aside_and_the_one_before_is_used(
    classification: Classification, undisturbed: Path, name: str, damage: Callable[[Path], None], words: str
) -> None:
    classification.take(undisturbed, 4)
    damage(classification.file(4, name))
    left = {path.name for path in classification.out.glob("run_it004_*")}
    ended = classification.run(iterations=4)
    assert ended.code == 0 and f"not used: out/run_it004_optimiser.star: {words}" in ended.err
    assert "resuming from out/run_it003_optimiser.star (step 3" in ended.err
    assert {path.name for path in classification.out.glob("run_it004_*.attempt-1")} == {f"{n}.attempt-1" for n in left}
    assert "step 4 of 4 is reached" in ended.err


def test_a_resume_from_the_iteration_before_is_the_programs_own(
    classification: Classification, particles: Path, undisturbed: Path
) -> None:
    classification.take(undisturbed, 5)
    halve(classification.file(5, "classes.mrcs"))
    assert classification.run().code == 0
    expected = continued(particles, undisturbed, classification.directory / "again", 4)
    assert_same(classification.out, expected, ITERATIONS)


def test_flipped_bits_in_an_image_are_noticed_where_the_iteration_was_seen_before(
    classification: Classification,
) -> None:
    assert classification.run(iterations=3).code == 0
    path = classification.file(3, "classes.mrcs")
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[-100] ^= 0x40
    path.write_bytes(data)
    # As a device does it: nobody has written to the file.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    ended = classification.run(iterations=4)
    assert ended.code == 0
    assert "not used: out/run_it003_optimiser.star: its bytes are not those that were written" in ended.err
    assert "resuming from out/run_it002_optimiser.star" in ended.err


def test_where_no_iteration_is_left_it_does_not_begin_from_zero(classification: Classification) -> None:
    assert classification.run(iterations=2).code == 0
    for path in classification.out.glob("run_it00[12]_*"):
        path.unlink()
    ended = classification.run()
    assert ended.code == 80 and "will not start RELION from zero" in ended.err
    assert not classification.file(1, "optimiser.star").exists()


def test_a_fresh_start_puts_all_old_iterations_aside(classification: Classification, undisturbed: Path) -> None:
    classification.take(undisturbed, 5)
    ended = classification.run(iterations=2, options=("--fresh",))
    assert ended.code == 0 and "step 2 of 2 is reached" in ended.err
    assert sorted(path.name for path in classification.out.glob("*_optimiser.star")) == [
        f"run_it{number:03d}_optimiser.star" for number in range(3)
    ]
    assert classification.file(5, "data.star.attempt-1").exists()


def test_a_kill_before_the_first_iteration_is_whole_costs_a_fresh_start(
    classification: Classification, undisturbed: Path
) -> None:
    classification.take(undisturbed, 1)
    for name in ("model.star", "data.star", "sampling.star", "classes.mrcs"):
        classification.file(1, name).unlink()
    cut_in_a_line(classification.file(1, "optimiser.star"))
    ended = classification.run()
    assert ended.code == 0 and "fresh start" in ended.err
    assert_same(classification.out, undisturbed / "out", ITERATIONS)


def test_higher_iterations_that_an_earlier_run_has_left_are_not_the_newest(
    classification: Classification, undisturbed: Path
) -> None:
    classification.take(undisturbed, ITERATIONS)
    for number in range(3, ITERATIONS + 1):
        for path in classification.out.glob(f"run_it{number:03d}_*"):
            os.utime(path, (1e9, 1e9))
    ended = classification.run(iterations=3)
    assert ended.code == 0 and "run_it006_optimiser.star: it is older than iteration 2" in ended.err
    assert "resuming from out/run_it002_optimiser.star" in ended.err
    assert classification.file(6, "data.star.attempt-1").exists()


def test_a_run_that_is_done_is_not_started_again(classification: Classification, undisturbed: Path) -> None:
    classification.take(undisturbed, ITERATIONS)
    before = {path: path.stat().st_mtime_ns for path in classification.out.glob("run_*")}
    ended = classification.run()
    assert ended.code == 0 and f"has nothing to do: step {ITERATIONS} of {ITERATIONS} is reached" in ended.err
    assert {path: path.stat().st_mtime_ns for path in classification.out.glob("run_*")} == before


def test_more_iterations_extend_a_run_that_is_done(classification: Classification, undisturbed: Path) -> None:
    classification.take(undisturbed, ITERATIONS)
    ended = classification.run(iterations=ITERATIONS + 1)
    assert ended.code == 0 and f"resuming from out/run_it{ITERATIONS:03d}_optimiser.star" in ended.err
    assert classification.file(ITERATIONS + 1, "sampling.star").exists()


def test_asked_to_stop_it_ends_with_the_iteration_in_progress(classification: Classification) -> None:
    process = classification.start(iterations=50)
    classification.wait_for_iteration(1)
    process.send_signal(signal.SIGTERM)
    ended = classification.launcher.end_of(process)
    assert ended.code == 75 and "it is ended at its next checkpoint" in ended.err
    assert "grace time is over" not in ended.err
    saved = classification.launcher.event(1, "ended")["last_good_step"]
    ended = classification.run(iterations=saved + 1)
    assert ended.code == 0 and f"(step {saved}, " in ended.err


def test_without_grace_the_iteration_in_progress_is_lost(classification: Classification, undisturbed: Path) -> None:
    classification.take(undisturbed, 4)
    process = classification.launcher.start(*classification.words(options=("--grace", "0s"), iterations=50))
    classification.process()
    process.send_signal(signal.SIGTERM)
    ended = classification.launcher.end_of(process)
    assert ended.code in (75, 87) and "the grace time is over" in ended.err
    assert classification.run(iterations=ITERATIONS).code == 0


def test_an_abort_that_was_left_behind_does_not_end_the_next_start(
    classification: Classification, undisturbed: Path
) -> None:
    classification.take(undisturbed, 4)
    for name in ("ABORT_NOW", "EXIT_ABORTED", "EXIT_SUCCESS"):
        (classification.out / f"RELION_JOB_{name}").touch()
    ended = classification.run()
    assert ended.code == 0 and "removed out/RELION_JOB_ABORT_NOW" in ended.err
    assert {path.name for path in classification.out.glob("RELION_JOB_*")} == {"RELION_JOB_EXIT_SUCCESS"}


def test_a_persons_abort_is_not_restarted(classification: Classification) -> None:
    process = classification.start(iterations=50)
    classification.wait_for_iteration(1)
    (classification.out / "RELION_JOB_ABORT_NOW").touch()
    ended = classification.launcher.end_of(process)
    assert ended.code == 130 and "somebody asked RELION to abort" in ended.err
    assert classification.launcher.outcomes() == ["cancelled"]


def test_its_own_message_is_shown_and_it_is_not_tried_again(classification: Classification) -> None:
    (classification.directory / "particles.star").unlink()
    ended = classification.run()
    assert ended.code == 1
    assert "MetaDataTable::read: File particles.star does not exist" in ended.err.splitlines()[-1]
    assert classification.launcher.outcomes() == ["program error"]


def test_iterations_of_another_run_are_refused(classification: Classification, undisturbed: Path) -> None:
    classification.take(undisturbed, 4)
    other = classification.run("--K", "3")
    assert other.code == 80 and "it has 2 classes, the command asks for 3: it is of another run" in other.err
    table = classification.directory / "particles.star"
    table.write_text(table.read_text().replace("000060@", "000001@"))
    other = classification.run()
    assert other.code == 80 and "has other particles than particles.star: it is of another run" in other.err
    assert classification.file(4, "data.star").exists()


def test_as_many_classes_as_references_are_not_of_another_run(
    classification: Classification, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classification.take(undisturbed, 4)
    monkeypatch.chdir(classification.directory)
    for reference, is_refused in (("reference.mrc", True), ("references.star", False), ("references.mrcs", False)):
        adapter = Relion(["relion_refine", *OPTIONS, "--K", "3", "--ref", reference])
        assert bool(adapter.problem_of(adapter.candidates()[0])) is is_refused


def test_a_refinement_is_done_when_its_last_results_are_whole_and_newer_than_its_iterations(
    classification: Classification, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classification.take(undisturbed, 4)
    monkeypatch.chdir(classification.directory)

    def is_done() -> bool:
        work = Relion(["relion_refine_mpi", *REFINE]).work()
        assert work is not None and work.done == 4
        return work.is_done

    assert not is_done()
    for what in ("data", "model", "sampling"):
        assert not is_done()
        shutil.copy(classification.file(4, f"{what}.star"), classification.out / f"run_{what}.star")
    assert is_done()
    last = classification.out / "run_sampling.star"
    os.utime(last, (1e9, 1e9))
    assert not is_done()
    cut_in_a_line(last)
    assert not is_done()


def test_a_directory_that_is_not_there_is_named(classification: Classification) -> None:
    classification.out.rmdir()
    ended = classification.run()
    assert ended.code == 2 and "there is no directory out, which --o names" in ended.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["relion_run_ctffind", "--i", "micrographs.star"], "relion_run_ctffind ... --only_do_unfinished"),
        (
            ["mpirun", "relion_run_motioncorr_mpi"],
            "relion_run_motioncorr_mpi writes nothing that it could be continued",
        ),
        (["relion_postprocess", "--i", "half1.mrc"], "which begins again after a failure"),
        (["relion_refine", "--i", "particles.star"], "the command has no --o"),
        (["relion_refine", "--o", "out/run", "--continue", "x"], "takes no --continue"),
        (["python3", "relion.py"], "the command runs no relion_refine"),
    ],
)
def test_what_cannot_be_continued_is_refused_before_anything_runs(
    launcher: Launcher,  # noqa: F811
    words: list[str],
    message: str,
) -> None:
    ended = launcher.run("--app", "relion", "--", *words)
    assert ended.code == 2 and message in ended.err


@pytest.fixture
def stand_in(classification: Classification) -> Callable[[str], list[str]]:
    """A program of RELION's name that does what a shell script says; the command that runs it."""

    def make(script: str) -> list[str]:
        path = classification.directory / "relion_refine"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return ["--app", "relion", "--", f"./{path.name}", *OPTIONS, "--iter", str(ITERATIONS)]

    return make


def test_an_iteration_that_is_only_written_again_is_no_progress(
    classification: Classification, undisturbed: Path, stand_in: Callable[[str], list[str]]
) -> None:
    classification.take(undisturbed, 4)
    ended = classification.launcher.run(*stand_in("touch out/run_it004_*; kill -KILL $$"))
    assert ended.code == 82 and classification.launcher.outcomes() == ["killed", "killed"]


def test_exit_code_0_does_not_stand_for_the_last_iteration(
    classification: Classification, undisturbed: Path, stand_in: Callable[[str], list[str]]
) -> None:
    ended = classification.launcher.run(*stand_in("exit 0"))
    assert ended.code == 1 and "exit code 0, but its last results are not there" in ended.err
    classification.take(undisturbed, 4)
    ended = classification.launcher.run(*stand_in("exit 0"))
    assert ended.code == 1 and f"exit code 0 at step 4 of {ITERATIONS}: the work is not done" in ended.err


def test_what_a_full_disk_leaves_is_no_error_of_the_program(classification: Classification) -> None:
    # Room for the first iterations.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=140k", "tmpfs", classification.out], check=True)
    try:
        ended = classification.run()
    finally:
        subprocess.run(["umount", "--lazy", classification.out], check=True)
    assert ended.code == 82 and "is empty: RELION goes on where a disk is full" in ended.err
    assert set(classification.launcher.outcomes()) == {"storage error"}


def is_whole(path: Path) -> bool:
    return path.exists() and path.read_bytes().endswith(b"\n \n")


def test_of_three_ranks_that_refine_one_is_killed(classification: Classification) -> None:
    need("relion_refine_mpi", "RELION")
    need("mpirun", "OpenMPI")
    launcher = classification.launcher  # noqa: F811
    launcher.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    ranks = ["mpirun", "--oversubscribe", "-np", "3", "relion_refine_mpi"]
    process = launcher.start("--app", "relion", "--", *ranks, *REFINE, "--auto_iter_max", "2")
    # The ranks write at the same time, the particles last.
    wait_for(
        lambda: all(is_whole(classification.file(1, f"{what}.star")) for what in ("sampling", "data")), "iteration 1"
    )
    [rank for rank in launcher.survivors() if name_of(rank).startswith("relion_refine")][-1].kill()
    ended = launcher.end_of(process)
    assert ended.code == 0 and "resuming from out/run_it001_optimiser.star" in ended.err
    assert launcher.outcomes() == ["killed", "finished"]
