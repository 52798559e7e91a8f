"""Real LAMMPS: killed, stopped, damaged, and at the end the same atoms as if nothing had happened."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lastgood.apps.lammps import Lammps
from lastgood.launch.ports import Conditions
from launch.conftest import LIMIT_S, Ended, Launcher

from .conftest import assert_loss_is_known, need, refuse_to_save, segments
from .held import Holds

pytestmark = pytest.mark.slow

INPUTS = Path(__file__).parent / "lammps"
MPIRUN = ("mpirun", "--oversubscribe", "-np", "2")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ALONE = {"OMPI_MCA_ess_singleton_isolated": "1"}
"""Without it, a single process starts a helper that outlives it for a moment."""
LOOKS = {
    "in.plain": ("in.plain.lastgood-STOP", 25),
    "in.chunks": ("STOP", 3),
    "in.heating": ("in.heating.lastgood-STOP", 15),
}
"""The file that LAMMPS looks for now and then, which tells it to stop, and how often it has looked behind its second save."""


class Simulation:
    """One simulation in a directory of its own."""

    def __init__(self, launcher: Launcher, name: str) -> None:
        self.launcher = launcher
        self.directory = launcher.directory
        self.name = name
        launcher.environment |= ALONE
        shutil.copy(INPUTS / name, self.directory)
        self.before: tuple[str, ...] = ()
        self.holds = Holds(launcher, "lmp", "-in")

    def words(self, *more: str, options: tuple[str, ...] = ()) -> list[str]:
        return ["--app", "lammps", *options, "--", *self.before, "lmp", "-in", self.name, *more]

    def run(self, *more: str, options: tuple[str, ...] = ()) -> Ended:
        return self.launcher.run(*self.words(*more, options=options))

    def start(self, *more: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        return self.launcher.start(*self.words(*more, options=options))

    def file(self, name: str) -> Path:
        return self.directory / name

    def hold(self, looks: int | None = None) -> int:
        """The next start in the middle: behind its second save, or when it has looked so often whether it is to stop."""
        path, behind_saves = LOOKS[self.name]
        return self.holds.add("openat", looks or behind_saves, path)

    def wait_for_saves(self, name: str, hold: int) -> psutil.Process:
        process = self.holds.wait(hold)
        assert self.file(name).exists()
        return process

    def stop_in_the_middle(self, saved: str = "restart.b") -> None:
        hold = self.hold()
        process = self.start()
        self.wait_for_saves(saved, hold)
        self.holds.stop(hold)
        ended = self.launcher.end_of(process)
        assert ended.code == 75, ended.err

    def saved_step(self, attempt: int) -> int:
        """The last that was written down."""
        return int([e["data"]["step"] for e in self.launcher.events(attempt) if e["kind"] == "committed"][-1])

    def edit(self, old: str, new: str) -> None:
        text = self.file(self.name).read_text()
        assert old in text
        self.file(self.name).write_text(text.replace(old, new))


@pytest.fixture
def plain(launcher: Launcher) -> Simulation:
    need("lmp", "LAMMPS")
    return Simulation(launcher, "in.plain")


@pytest.fixture
def chunks(launcher: Launcher) -> Simulation:
    need("lmp", "LAMMPS")
    return Simulation(launcher, "in.chunks")


@pytest.fixture
def heating(launcher: Launcher) -> Simulation:
    need("lmp", "LAMMPS")
    return Simulation(launcher, "in.heating")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """What an input gives when nothing happens to it and nobody of us is there."""
    need("lmp", "LAMMPS")
    made: dict[str, Path] = {}

    def run(name: str) -> Path:
        if name not in made:
            place = tmp_path_factory.mktemp("undisturbed")
            shutil.copy(INPUTS / name, place)
            subprocess.run(["lmp", "-in", name], cwd=place, check=True, capture_output=True, timeout=LIMIT_S)
            made[name] = place
        return made[name]

    return run


def assert_same(simulation: Simulation, undisturbed: Path, *names: str) -> None:
    for name in names:
        assert simulation.file(name).read_bytes() == (undisturbed / name).read_bytes(), name


def kill_twice(simulation: Simulation, saved: str) -> Ended:
    first, second = simulation.hold(), simulation.hold(looks=2)
    process = simulation.start()
    running = simulation.wait_for_saves(saved, first)
    refuse_to_save(simulation.launcher, "LAMMPS saves at its own steps only")
    running.kill()
    simulation.launcher.wait_for_output("attempt 2 of", "err")
    simulation.holds.wait(second).kill()
    return simulation.launcher.end_of(process)


def test_a_plain_input_killed_twice_ends_with_the_bytes_of_an_undisturbed_run(
    plain: Simulation, undisturbed: Callable[[str], Path]
) -> None:
    ended = kill_twice(plain, "restart.b")
    assert ended.code == 0 and "resuming from restart." in ended.err and "step 8000 of 8000 is reached" in ended.err
    assert plain.launcher.outcomes() == ["killed", "killed", "finished"]
    assert_loss_is_known(plain.launcher, 1)
    assert_loss_is_known(plain.launcher, 2)
    assert_same(plain, undisturbed("in.plain"), "final.data", "dump.lj")


def test_an_input_in_chunks_killed_twice_ends_with_the_bytes_of_an_undisturbed_run(
    chunks: Simulation, undisturbed: Callable[[str], Path]
) -> None:
    ended = kill_twice(chunks, "rs.400")
    assert ended.code == 0 and "resuming from rs." in ended.err
    assert_same(chunks, undisturbed("in.chunks"), "final.data")


def test_a_plain_input_asked_to_stop_saves_and_goes_on_later(
    plain: Simulation, undisturbed: Callable[[str], Path]
) -> None:
    plain.stop_in_the_middle()
    assert not plain.file("final.data").exists()
    saved = plain.saved_step(1)
    ended = plain.run()
    assert ended.code == 0 and f"resuming from in.plain.lastgood-stopped (step {saved}" in ended.err
    assert plain.launcher.outcomes() == ["preempted", "finished"]
    assert_same(plain, undisturbed("in.plain"), "final.data", "dump.lj")


def test_an_input_in_chunks_asked_to_stop_goes_on_later(chunks: Simulation, undisturbed: Callable[[str], Path]) -> None:
    chunks.stop_in_the_middle("rs.400")
    assert chunks.file("STOP").exists()
    ended = chunks.run()
    assert ended.code == 0 and not chunks.file("STOP").exists()
    assert_same(chunks, undisturbed("in.chunks"), "final.data")


def frame(dump: Path, step: int) -> list[list[float]]:
    """The atoms of one frame; there must be exactly one."""
    parts = dump.read_text().split("ITEM: TIMESTEP\n")
    (found,) = [part for part in parts if part.startswith(f"{step}\n")]
    return [[float(word) for word in line.split()] for line in found.split("ITEM: ATOMS")[1].splitlines()[1:]]


def test_any_other_input_goes_on_where_it_was_up_to_rounding(
    heating: Simulation, undisturbed: Callable[[str], Path]
) -> None:
    heating.stop_in_the_middle("in.heating.lastgood-2")
    saved = heating.saved_step(1)
    ended = heating.run()
    assert ended.code == 0 and "a restart file each 60 steps" in ended.err
    # If the thermostat began its ramp again, this frame would show it already.
    step = (saved // 20 + 1) * 20
    pairs = zip(frame(heating.file("dump.lj"), step), frame(undisturbed("in.heating") / "dump.lj", step), strict=True)
    assert max(abs(a - b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True)) < 1e-9
    assert heating.file("temperature.txt").exists() and list(heating.directory.glob("temperature.txt.from-*"))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_the_end(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip_in_the_atoms(path: Path) -> None:
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    # As a device does it: nobody has written to the file.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (truncate, "its end mark is missing"),
        (cut_the_end, "its end mark is missing"),
        (zero, "it does not begin as a restart file does"),
        (empty, "it is empty"),
        (flip_in_the_atoms, "its bytes are not those that were written"),
        (Path.unlink, ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_newest_restart_file_is_passed_over(
    plain: Simulation, undisturbed: Callable[[str], Path], damage: Callable[[Path], None], words: str
) -> None:
    plain.stop_in_the_middle()
    damage(plain.file("in.plain.lastgood-stopped"))
    ended = plain.run()
    assert ended.code == 0 and "resuming from restart." in ended.err
    if words:
        assert f"not used: in.plain.lastgood-stopped: {words}" in ended.err
        assert plain.file("in.plain.lastgood-stopped.attempt-2").exists()
    assert_same(plain, undisturbed("in.plain"), "final.data", "dump.lj")


def test_where_no_restart_file_is_left_it_does_not_begin_from_zero(plain: Simulation) -> None:
    plain.stop_in_the_middle()
    before = plain.file("dump.lj").read_bytes()
    for name in ("in.plain.lastgood-stopped", "restart.a", "restart.b"):
        plain.file(name).unlink()
    ended = plain.run()
    assert ended.code == 80 and "will not start LAMMPS from zero" in ended.err
    assert plain.file("dump.lj").read_bytes() == before
    assert plain.run(options=("--fresh",)).code == 0


def test_a_run_that_is_done_is_not_started_again(plain: Simulation) -> None:
    assert plain.run().code == 0
    before = {path.name: path.stat().st_mtime_ns for path in plain.directory.glob("*.*") if path.is_file()}
    ended = plain.run()
    after = {path.name: path.stat().st_mtime_ns for path in plain.directory.glob("*.*") if path.is_file()}
    assert ended.code == 0 and "has nothing to do: step 8000 of 8000 is reached" in ended.err
    assert before == after


def test_killed_behind_its_last_step_it_still_writes_its_results(plain: Simulation) -> None:
    assert plain.run().code == 0
    for name in ("final.data", "in.plain.lastgood-end"):
        plain.file(name).unlink()
    assert plain.run().code == 0
    assert plain.file("final.data").exists()


def test_more_steps_go_on_from_the_end(plain: Simulation) -> None:
    plain.edit("8000", "2050")
    assert plain.run().code == 0
    plain.edit("2050", "3000")
    ended = plain.run()
    assert ended.code == 0 and "resuming from in.plain.lastgood-end (step 2050" in ended.err


def test_its_own_message_is_shown_and_it_is_not_tried_again(plain: Simulation) -> None:
    plain.edit("pair_style   lj/cut", "pair_style   lj/kut")
    ended = plain.run()
    assert ended.code == 1 and "ERROR: Unrecognized pair style 'lj/kut'" in ended.err
    assert plain.launcher.outcomes() == ["program error"]


def test_a_restart_file_of_another_system_is_refused(heating: Simulation) -> None:
    heating.stop_in_the_middle("in.heating.lastgood-2")
    ended = heating.run("-var", "cells", "5")
    assert (
        ended.code == 80 and "is of another system: the commands in in.heating that build it were changed" in ended.err
    )
    heating.edit("units        lj", "units        metal")
    ended = heating.run()
    assert ended.code == 80 and "its units is lj, that of in.heating is metal" in ended.err
    assert heating.file("in.heating.lastgood-stopped").exists()


def test_a_time_limit_makes_segments(plain: Simulation) -> None:
    plain.edit("8000", "400000")
    both = segments(plain.launcher, lambda limits: plain.run(options=limits), 3.0, "1s")
    _, saved = next(both)
    assert plain.file("in.plain.lastgood-stopped").exists() and not plain.file("final.data").exists()
    ended, further = next(both)
    assert f"resuming from in.plain.lastgood-stopped (step {saved}" in ended.err
    assert further > saved


def test_two_launchers_do_not_work_in_one_directory(plain: Simulation, tmp_path: Path) -> None:
    hold = plain.hold()
    process = plain.start()
    plain.wait_for_saves("restart.a", hold)
    other = plain.launcher.run(*plain.words(), job=tmp_path / "other")
    assert other.code == 86 and "another launcher runs LAMMPS" in other.err
    plain.holds.let_go(hold)
    assert plain.launcher.end_of(process).code == 0


def test_two_ranks_stop_together_and_one_killed_ends_both(plain: Simulation) -> None:
    need("mpirun", "OpenMPI")
    del plain.launcher.environment["OMPI_MCA_ess_singleton_isolated"]
    plain.launcher.environment |= AS_ROOT
    plain.before = MPIRUN
    plain.edit("8000", "4000")
    plain.stop_in_the_middle()
    assert "Fix halt condition" in plain.launcher.log
    hold = plain.hold(looks=2)
    process = plain.start()
    plain.launcher.wait_for_output("attempt 2 of", "err")
    plain.holds.wait(hold).kill()
    ended = plain.launcher.end_of(process)
    assert ended.code == 0 and plain.launcher.outcomes()[-1] == "finished"


def test_a_stop_request_that_one_rank_alone_sees_stops_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("lmp", "LAMMPS")
    need("mpirun", "OpenMPI")
    monkeypatch.chdir(tmp_path)
    shutil.copy(INPUTS / "in.plain", tmp_path)
    Lammps(["lmp", "-in", "in.plain"]).order(None, Conditions(60.0))
    words = ["mpirun", "--oversubscribe"]
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        shutil.copy("in.plain.lastgood-input", name)
        words += ["-np", "1", "-wdir", name, "lmp", "-in", "in.plain.lastgood-input", ":"]
    Path("second", "in.plain.lastgood-STOP").touch()
    ended = subprocess.run(
        words[:-1], env={**os.environ, **AS_ROOT}, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 0 and "stopped and saved at step 10" in ended.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lmp"], "the command names no input"),
        (["lmp", "-in", "in.other"], "there is no LAMMPS input in.other"),
        (["lmp", "-in", "in.plain", "-partition", "2x1"], "cannot continue a run with -partition"),
        (["gmx", "energy"], "the command runs no lmp"),
    ],
)
def test_a_wrong_command_line_is_refused_before_anything_runs(
    plain: Simulation, words: list[str], message: str
) -> None:
    ended = plain.launcher.run("--app", "lammps", "--", *words)
    assert ended.code == 2 and message in ended.err
    assert not plain.file("log.lammps").exists()
