"""Real OpenFOAM: killed, stopped, damaged, and at the end the same fields as if nothing had happened."""

import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lastgood.apps.openfoam import OpenFoam
from lastgood.core.outcome import Evidence, Outcome
from lastgood.launch.process import name_of
from launch.conftest import LIMIT_S, Ended, Launcher, wait_for, without_root_powers
from launch.conftest import launcher as launcher

from .conftest import HERE, assert_loss_is_known, need, segments
from .held import Holds

pytestmark = pytest.mark.slow

FIELDS = ("U", "p", "phi")
END = "0.6"
ENVIRONMENT = {
    "WM_PROJECT_DIR": os.environ.get("WM_PROJECT_DIR", "/usr/share/openfoam"),
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # Ranks that wait leave the core to the others.
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
MPIRUN = ["mpirun", "--oversubscribe", "-np", "2"]


def tool(*words: str, at: Path) -> None:
    environment = {**os.environ, **ENVIRONMENT}
    subprocess.run(words, cwd=at, check=True, capture_output=True, timeout=LIMIT_S, env=environment)


def set_entry(case: Path, key: str, value: str) -> None:
    path = case / "system" / "controlDict"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{key} {value};\n" if line.split()[:1] == [key] else f"{line}\n" for line in lines))


@pytest.fixture(scope="session")
def meshed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A case that is ready to start."""
    need("icoFoam", "OpenFOAM")
    case = tmp_path_factory.mktemp("openfoam") / "meshed"
    shutil.copytree(HERE / "openfoam", case)
    tool("blockMesh", at=case)
    return case


@pytest.fixture(scope="session")
def decomposed(meshed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for two ranks, and shorter."""
    need("mpirun", "OpenMPI")
    case = tmp_path_factory.mktemp("openfoam") / "decomposed"
    shutil.copytree(meshed, case)
    set_entry(case, "endTime", "0.24")
    tool("decomposePar", at=case)
    return case


@pytest.fixture(scope="session")
def undisturbed(meshed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the same case gives when nothing happens to it and nobody of us is there."""
    case = tmp_path_factory.mktemp("openfoam") / "undisturbed"
    shutil.copytree(meshed, case)
    tool("icoFoam", at=case)
    return case


@pytest.fixture(scope="session")
def undisturbed_ranks(decomposed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    case = tmp_path_factory.mktemp("openfoam") / "undisturbed"
    shutil.copytree(decomposed, case)
    tool(*MPIRUN, "icoFoam", "-parallel", at=case)
    return case


class Solver:
    """One case in a directory of its own, and the launcher that works on it."""

    def __init__(self, launcher: Launcher, made_from: Path) -> None:
        self.launcher = launcher
        self.case = launcher.directory
        launcher.environment |= ENVIRONMENT
        shutil.copytree(made_from, self.case, dirs_exist_ok=True)
        self.command = ["icoFoam"]
        self.holds = Holds(launcher, "icoFoam")

    def words(self, *options: str) -> list[str]:
        return ["--app", "openfoam", *options, "--", *self.command]

    def run(self, *options: str, **popen: object) -> Ended:
        return self.launcher.run(*self.words(*options), **popen)

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        return self.launcher.start(*self.words(*options))

    def hold(self, step: int, resumed_at: int = 0) -> int:
        """The next start when a step of 1 ms is done, and what is due at it is written."""
        # It looks how much time it has taken behind each step, and twice before the first.
        return self.holds.add("times", step - resumed_at + 2)

    def wait_for_step(self, step: int, hold: int, attempt: int = 1) -> psutil.Process:
        """Until an attempt has told of the step that it is held at."""
        process = self.holds.wait(hold)

        def is_told() -> bool:
            texts = self.launcher.output().split("Create time")
            return len(texts) > attempt and f"\nTime = {step / 1000:g}\n" in texts[attempt]

        wait_for(is_told, f"step {step} of attempt {attempt}")
        assert f"\nTime = {(step + 1) / 1000:g}\n" not in self.launcher.output()
        return process

    def solvers(self) -> list[psutil.Process]:
        launcher = psutil.Process(self.launcher.processes[-1].pid)
        return [process for process in launcher.children(recursive=True) if name_of(process) == "icoFoam"]

    def stop_in_the_middle(self, step: int) -> int:
        """Ends with some times that are whole, and work left; the step that was saved."""
        hold = self.hold(step)
        process = self.start()
        self.wait_for_step(step, hold)
        self.holds.stop(hold)
        ended = self.launcher.end_of(process)
        assert ended.code == 75, ended.err
        saved = int(self.launcher.event(1, "committed")["step"])
        assert saved >= step, "it was ended, and did not save"
        return saved

    def control(self) -> str:
        return (self.case / "system" / "controlDict").read_text()


@pytest.fixture
def solver(launcher: Launcher, meshed: Path) -> Solver:
    return Solver(launcher, meshed)


@pytest.fixture
def ranks(launcher: Launcher, decomposed: Path) -> Solver:
    ranks = Solver(launcher, decomposed)
    ranks.command = [*MPIRUN, "icoFoam", "-parallel"]
    return ranks


def time_before(step: int) -> str:
    """The last time before a step that the case asks for."""
    return f"{(step - 1) // 60 * 60 / 1000:g}"


def assert_same(case: Path, undisturbed: Path) -> None:
    """At each time that the case asks for, not only at the last."""
    times = [path for path in undisturbed.iterdir() if path.name.startswith("0.")]
    assert times
    for time in times:
        for field in FIELDS:
            assert (case / time.name / field).read_bytes() == (time / field).read_bytes(), f"{time.name}/{field}"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ended_by_a_signal_at_random_steps_it_ends_with_the_bytes_of_an_undisturbed_run(
    solver: Solver, undisturbed: Path, number: signal.Signals
) -> None:
    steps = [random.randint(65, 180), random.randint(245, 420)]
    holds = [solver.hold(steps[0]), solver.hold(steps[1], resumed_at=steps[0] // 60 * 60)]
    process = solver.start()
    for attempt, (step, hold) in enumerate(zip(steps, holds, strict=True), 1):
        solver.wait_for_step(step, hold, attempt).send_signal(number)
        # Any other signal than SIGKILL is heard of when it runs.
        solver.holds.let_go(hold)
    ended = solver.launcher.end_of(process)
    assert ended.code == 0, (steps, ended.err)
    assert "step 600 of 600 is reached" in ended.err
    assert solver.launcher.outcomes() == ["killed", "killed", "finished"], steps
    for attempt, step in enumerate(steps, 1):
        assert_loss_is_known(solver.launcher, attempt, at_least=step)
    assert solver.launcher.output().count("Create mesh for time = 0\n") == 1, "it began again"
    assert_same(solver.case, undisturbed)


def test_killed_with_its_launcher_it_goes_on(solver: Solver, undisturbed: Path) -> None:
    step = random.randint(125, 300)
    hold = solver.hold(step)
    process = solver.start()
    solver.wait_for_step(step, hold)
    process.kill()
    process.wait(LIMIT_S)
    solver.holds.let_go(hold)
    wait_for(lambda: not solver.launcher.survivors(), "the end of the solver")
    ended = solver.run()
    assert ended.code == 0 and "resuming from 0." in ended.err
    assert_same(solver.case, undisturbed)


def test_asked_to_stop_it_saves_at_once_and_goes_on_later(solver: Solver, undisturbed: Path) -> None:
    saved = solver.stop_in_the_middle(130)
    assert (solver.case / f"{saved / 1000:g}").is_dir()
    ended = solver.run()
    assert ended.code == 0 and f"resuming from {saved / 1000:g} (step {saved}" in ended.err
    assert solver.launcher.outcomes() == ["preempted", "finished"]
    assert_same(solver.case, undisturbed)


def test_asked_to_save_it_writes_and_carries_on(solver: Solver, undisturbed: Path) -> None:
    hold = solver.hold(100)
    process = solver.start()
    solver.wait_for_step(100, hold)
    process.send_signal(signal.SIGUSR2)
    solver.launcher.wait_for_output("SIGUSR2: save and carry on", "err")
    solver.holds.let_go(hold)
    assert solver.launcher.end_of(process).code == 0
    extra = {p.name for p in solver.case.glob("0.*")} - {p.name for p in undisturbed.glob("0.*")}
    assert len(extra) <= 1 and "sigWriteNow : setting up write" in solver.launcher.output()
    assert_same(solver.case, undisturbed)


def test_a_time_limit_makes_segments(solver: Solver, meshed: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(meshed, alone)
    for case in (alone, solver.case):
        # So long that no machine does it in one of them.
        set_entry(case, "endTime", "1.2")
    tool("icoFoam", at=alone)
    saved = [step for _, step in segments(solver.launcher, lambda limits: solver.run(*limits), 2.0, "500ms")]
    assert saved and saved[-1] < 1200
    assert solver.launcher.event(len(solver.launcher.outcomes()), "started")["step"] == saved[-1]
    assert_same(solver.case, alone)


def cut(path: Path, size: int) -> None:
    os.truncate(path, size)


def leave_half(time: Path) -> None:
    (time / "p").unlink()
    cut(time / "phi", (time / "phi").stat().st_size // 2)


def empty(time: Path) -> None:
    for name in os.listdir(time):
        shutil.rmtree(time / name) if (time / name).is_dir() else (time / name).unlink()


def make_empty_file(time: Path) -> None:
    cut(time / "U", 0)


def zero(time: Path) -> None:
    (time / "U").write_bytes(bytes((time / "U").stat().st_size))


def cut_the_footer(time: Path) -> None:
    cut(time / "U", (time / "U").stat().st_size - 100)


def take_out_bytes(time: Path) -> None:
    data = (time / "p").read_bytes()
    (time / "p").write_bytes(data[:2000] + data[2016:])


def remove_phi(time: Path) -> None:
    (time / "phi").unlink()


def remove_uniform(time: Path) -> None:
    shutil.rmtree(time / "uniform")


def link_to_nothing(time: Path) -> None:
    (time / "U").unlink()
    (time / "U").symlink_to("elsewhere")


def let_it_be_another_time(time: Path) -> None:
    path = time / "uniform" / "time"
    path.write_text(re.sub(r"(?m)^value( +)0", r"value\g<1>4", path.read_text()))


def flip_bits(time: Path) -> None:
    path = time / "U"
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[4000] ^= 0x01
    path.write_bytes(data)
    # As a device does it: nobody has written to the file.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (leave_half, "p is missing"),
        (empty, "U is missing"),
        (make_empty_file, "U is empty"),
        (zero, "U begins with no FoamFile header"),
        (cut_the_footer, "U has no end"),
        (take_out_bytes, "p has a list of 1024 scalars that is longer or shorter"),
        (remove_phi, "phi is missing"),
        (link_to_nothing, "U cannot be opened"),
        (let_it_be_another_time, "uniform/time says 4.6"),
        (remove_uniform, "uniform/cumulativeContErr is missing"),
    ],
)
def test_what_is_wrong_with_the_newest_time_is_seen(
    undisturbed: Path, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    case = tmp_path / "case"
    shutil.copytree(undisturbed, case)
    damage(case / END)
    adapter = OpenFoam(["icoFoam", "-case", os.fspath(case)])
    newest, second = adapter.candidates()[:2]
    assert words in (newest.problem or adapter.problem_of(newest))
    assert second.path == os.fspath(case / "0.54")
    assert not second.problem and not adapter.problem_of(second)


@pytest.mark.parametrize(("end", "total"), [("0.5996", None), ("0.6004", None), ("0.6006", 601), ("0.66", 660)])
def test_done_is_the_time_at_the_end_less_half_a_step(
    undisturbed: Path, tmp_path: Path, end: str, total: int | None
) -> None:
    case = tmp_path / "case"
    shutil.copytree(undisturbed, case)
    set_entry(case, "endTime", end)
    work = OpenFoam(["icoFoam", "-case", os.fspath(case)]).work()
    assert work is not None and (work.done, work.total, work.is_done) == (600, total or 600, total is None)


@pytest.mark.parametrize("format_", ["ascii", "compressed"])
def test_text_and_compressed_fields_are_checked_too(meshed: Path, tmp_path: Path, format_: str) -> None:
    case = tmp_path / "case"
    shutil.copytree(meshed, case)
    set_entry(case, "endTime", "0.12")
    set_entry(case, "writeFormat", "ascii" if format_ == "ascii" else "ascii; writeCompression on")
    tool("icoFoam", at=case)
    adapter = OpenFoam(["icoFoam", "-case", os.fspath(case)])
    newest = adapter.candidates()[0]
    assert newest.step == 120 and not newest.problem and not adapter.problem_of(newest)
    path = case / "0.12" / ("U" if format_ == "ascii" else "U.gz")
    data = path.read_bytes()
    if format_ == "ascii":
        lines = data.splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:100] + lines[101:]))
        assert "U has a list of 1024 vectors" in adapter.problem_of(newest)
    else:
        path.write_bytes(data[:-100])
        assert "U cannot be unpacked" in adapter.problem_of(newest)


@pytest.mark.parametrize("damage", [leave_half, remove_phi, flip_bits, shutil.rmtree])
def test_a_damaged_newest_time_is_passed_over(
    solver: Solver, undisturbed: Path, damage: Callable[[Path], None]
) -> None:
    saved = solver.stop_in_the_middle(200)
    newest = solver.case / f"{saved / 1000:g}"
    damage(newest)
    ended = solver.run()
    assert ended.code == 0 and f"resuming from {time_before(saved)} (step " in ended.err
    if damage is not shutil.rmtree:
        assert f"not used: {newest.name}: " in ended.err
        assert newest.with_name(f"{newest.name}.attempt-2").is_dir()
    assert_same(solver.case, undisturbed)


def test_a_damaged_last_time_is_computed_again(solver: Solver, undisturbed: Path) -> None:
    assert solver.run().code == 0
    flip_bits(solver.case / END)
    ended = solver.run()
    assert ended.code == 0 and "not used: 0.6: its bytes are not those that were written" in ended.err
    assert_same(solver.case, undisturbed)


def test_a_first_write_that_was_cut_off_is_no_reason_to_refuse_a_start(solver: Solver, undisturbed: Path) -> None:
    shutil.copytree(undisturbed / "0.06", solver.case / "0.06")
    leave_half(solver.case / "0.06")
    ended = solver.run()
    assert ended.code == 0 and "fresh start" in ended.err and "kept as 0.06.attempt-1" in ended.err
    assert_same(solver.case, undisturbed)


def test_where_all_of_several_times_are_bad_it_does_not_begin_from_zero(solver: Solver, undisturbed: Path) -> None:
    for name in ("0.06", "0.12"):
        shutil.copytree(undisturbed / name, solver.case / name)
        make_empty_file(solver.case / name)
    ended = solver.run()
    assert ended.code == 80 and "none can be used; the newest, 0.12: U is empty" in ended.err
    assert (solver.case / "0.12").is_dir()


def test_where_no_time_is_left_it_does_not_begin_from_zero(solver: Solver) -> None:
    solver.stop_in_the_middle(130)
    for path in solver.case.glob("0.*"):
        shutil.rmtree(path)
    ended = solver.run()
    assert ended.code == 80 and "will not start OpenFOAM from zero" in ended.err
    assert not list(solver.case.glob("0.*"))


def test_a_new_start_puts_all_old_times_aside(solver: Solver, undisturbed: Path) -> None:
    solver.stop_in_the_middle(200)
    old = {path.name for path in solver.case.glob("0.*")}
    ended = solver.run("--fresh")
    assert ended.code == 0 and len(old) >= 4
    assert old <= {path.name.removesuffix(".attempt-2") for path in solver.case.glob("0.*.attempt-2")}
    assert_same(solver.case, undisturbed)


def test_a_new_start_needs_a_time_to_begin_from(solver: Solver) -> None:
    solver.stop_in_the_middle(130)
    shutil.rmtree(solver.case / "0")
    before = sorted(solver.case.glob("0.*"))
    ended = solver.run("--fresh")
    assert ended.code == 2 and "would have no time left to begin from: 0.06, 0.12" in ended.err
    assert sorted(solver.case.glob("0.*")) == before


def test_values_from_an_included_file_count_and_are_overruled(solver: Solver, undisturbed: Path) -> None:
    path = solver.case / "system" / "controlDict"
    head, _, text = path.read_text().partition("\n")
    text = text.replace("endTime         0.6;", "endTime $last;").replace("stopAt          endTime;", "")
    path.write_text(f'{head}\n#include "more"\n{text}')
    (path.parent / "more").write_text("last 0.6;\nstopAt writeNow;\n")
    hold = solver.hold(130)
    process = solver.start()
    solver.wait_for_step(130, hold).kill()
    ended = solver.launcher.end_of(process)
    assert ended.code == 0 and "step 600 of 600 is reached" in ended.err
    assert "\nstopAt endTime;  // added by lastgood\n" in path.read_text()
    assert_same(solver.case, undisturbed)


def test_ranks_at_different_steps_make_no_checkpoint(undisturbed_ranks: Path, tmp_path: Path) -> None:
    case = tmp_path / "case"
    shutil.copytree(undisturbed_ranks, case)
    stamp = case / "processor1" / "0.24" / "uniform" / "time"
    stamp.write_text(stamp.read_text().replace("index           240;", "index           239;"))
    adapter = OpenFoam([*MPIRUN, "icoFoam", "-parallel", "-case", os.fspath(case)])
    newest, second = adapter.candidates()[:2]
    assert adapter.problem_of(newest) == "its ranks are at different steps" and not adapter.problem_of(second)
    shutil.rmtree(case / "processor1" / "0.24")
    assert adapter.candidates()[0].problem == "it is not there in processor1"


def test_a_case_that_is_done_is_not_started_again(solver: Solver) -> None:
    assert solver.run().code == 0
    before = {path: path.stat().st_mtime_ns for path in solver.case.rglob("*") if "job" not in path.parts}
    ended = solver.run()
    assert ended.code == 0 and "has nothing to do: step 600 of 600 is reached" in ended.err
    changed = {path.name for path, when in before.items() if path.stat().st_mtime_ns != when}
    assert changed <= {"attempts", "job.lock", "log.txt", "out-0", "err-0", solver.case.name} | {
        path.name for path in solver.launcher.job.rglob("*")
    }
    set_entry(solver.case, "endTime", "0.66")
    ended = solver.run()
    assert ended.code == 0 and "step 660 of 660 is reached" in ended.err


def test_a_stop_that_was_left_behind_is_cleared_and_the_text_before_is_kept(solver: Solver, undisturbed: Path) -> None:
    set_entry(solver.case, "stopAt", "writeNow")
    before = solver.control()
    ended = solver.run()
    assert ended.code == 0
    assert "set in system/controlDict: startFrom latestTime, stopAt endTime" in ended.err
    assert (solver.case / "system" / "controlDict.before-lastgood").read_text() == before
    assert "/* As people have it: nothing in here is for a restart. */" in solver.control()
    assert_same(solver.case, undisturbed)


def test_who_stops_it_by_its_control_file_is_not_contradicted(solver: Solver) -> None:
    for old, new in (
        ("startTime;  ", "latestTime;"),
        ("functions { }", "runTimeModifiable true; OptimisationSwitches { stopAtWriteNowSignal 12; }"),
    ):
        path = solver.case / "system" / "controlDict"
        path.write_text(path.read_text().replace(old, new))
    # OpenFOAM does not look at a file that was changed within the last ten seconds.
    os.utime(path, (1e9, 1e9))
    hold = solver.hold(130)
    process = solver.start()
    solver.wait_for_step(130, hold)
    set_entry(solver.case, "stopAt", "nextWrite")
    solver.holds.let_go(hold)
    ended = solver.launcher.end_of(process)
    assert ended.code == 130 and "`stopAt nextWrite` was set in system/controlDict" in ended.err
    assert not list(path.parent.glob("*.before-lastgood"))


def test_its_own_message_is_shown_and_it_is_not_tried_again(solver: Solver) -> None:
    (solver.case / "0" / "p").unlink()
    ended = solver.run()
    assert ended.code == 1 and "FOAM FATAL ERROR: cannot find file" in ended.err
    assert solver.launcher.outcomes() == ["program error"]


def test_an_environment_that_is_not_there_is_named(solver: Solver) -> None:
    for name in [name for name in solver.launcher.environment if name.startswith(("WM_", "FOAM_"))]:
        del solver.launcher.environment[name]
    ended = solver.run()
    assert ended.code == 1 and "OpenFOAM does not find its own files: set WM_PROJECT_DIR" in ended.err


def test_a_solution_that_diverges_is_not_tried_again(solver: Solver) -> None:
    set_entry(solver.case, "deltaT", "0.05")
    set_entry(solver.case, "endTime", "30")
    ended = solver.run()
    assert ended.code == 136 and "floating point exception" in ended.err
    assert solver.launcher.outcomes() == ["program error"]


def test_a_steady_solution_that_has_converged_is_finished(meshed: Path) -> None:
    adapter = OpenFoam(["icoFoam", "-case", os.fspath(meshed)])
    ending = adapter.explain_end(Evidence(exit_code=0, log_tail="SIMPLE solution converged in 43 iterations\n\nEnd\n"))
    assert ending is not None and ending.outcome is Outcome.FINISHED


def test_a_full_disk_is_no_error_of_the_program(undisturbed: Path, tmp_path: Path) -> None:
    case = tmp_path / "case"
    shutil.copytree(undisturbed, case)
    adapter = OpenFoam(["icoFoam", "-case", os.fspath(case)])
    words = '--> FOAM FATAL IO ERROR: \nerror in IOstream "/c/0.3/U" for operation Foam::Ostream& Foam::UList<T>::writeList()\n'
    for evidence in (Evidence(exit_code=1, log_tail=words), Evidence(exit_code=0)):
        cut_the_footer(case / END)
        ending = adapter.explain_end(evidence)
        assert ending is not None and ending.outcome is Outcome.STORAGE_ERROR


def test_who_asks_for_an_interval_hears_what_the_cases_own_means(solver: Solver) -> None:
    set_entry(solver.case, "purgeWrite", "2")
    solver.stop_in_the_middle(130)
    ended = solver.run("--save-every", "30s")
    assert "--save-every 30 s changes nothing" in ended.err and "writeInterval 60 (timeStep)" in ended.err
    assert "purgeWrite 2 counts from this start on" in ended.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["icoFaom"], "the command runs no solver: neither icoFoam, nor"),
        (["mpirun", "-np", "2", "icyFoam", "-parallel"], "icyFoam: there is no such solver"),
        (["icoFoam", "-case", "elsewhere"], "elsewhere is no OpenFOAM case"),
        (["icoFoam", "-parallel"], "-parallel and no mpirun"),
        (["mpirun", "icoFoam", "-parallel"], "has no processor directories"),
        (["mpirun", "-np", "2", "icoFoam"], "mpirun and no -parallel"),
    ],
)
def test_what_cannot_be_continued_is_refused_before_anything_runs(
    solver: Solver, words: list[str], message: str
) -> None:
    before = solver.control()
    (solver.case / "icoFaom").write_text("#!/bin/sh\n")
    (solver.case / "icoFaom").chmod(0o755)
    solver.command = words
    solver.launcher.environment["PATH"] += f":{solver.case}"
    ended = solver.run()
    assert ended.code == 2 and message in ended.err
    assert solver.control() == before and not list(solver.case.glob("0.*"))


def test_a_case_elsewhere_is_found_where_the_command_says(solver: Solver, meshed: Path, undisturbed: Path) -> None:
    case = solver.case / "the-case"
    shutil.copytree(meshed, case)
    solver.command = ["icoFoam", "-case", "the-case"]
    hold = solver.hold(130)
    process = solver.start()
    solver.wait_for_step(130, hold).kill()
    assert solver.launcher.end_of(process).code == 0
    assert_same(case, undisturbed)


def test_a_case_that_may_not_be_written_to_is_named(solver: Solver) -> None:
    job = solver.launcher.directory / "job"
    case = solver.case / "case"
    shutil.copytree(HERE / "openfoam", case)
    case.chmod(0o555)
    solver.command = ["icoFoam", "-case", "case"]
    ended = solver.run(preexec_fn=without_root_powers, job=job)
    case.chmod(0o755)
    assert ended.code == 77 and "cannot lock case/.lastgood-openfoam.lock: Permission denied" in ended.err


def test_two_launchers_do_not_work_in_one_case(solver: Solver, tmp_path: Path) -> None:
    hold = solver.hold(1)
    process = solver.start()
    solver.wait_for_step(1, hold)
    other = solver.run(job=tmp_path / "other")
    assert other.code == 86 and "another launcher runs OpenFOAM" in other.err
    solver.holds.let_go(hold)
    assert solver.launcher.end_of(process).code == 0


def assert_same_ranks(ranks: Solver, undisturbed: Path) -> None:
    for name in ("processor0", "processor1"):
        assert_same(ranks.case / name, undisturbed / name)


def test_of_two_ranks_one_is_killed(ranks: Solver, undisturbed_ranks: Path) -> None:
    step = random.randint(70, 170)
    hold = ranks.hold(step)
    process = ranks.start()
    ranks.wait_for_step(step, hold)
    ranks.solvers()[-1].kill()
    ended = ranks.launcher.end_of(process)
    assert ended.code == 0 and "resuming from processor0/0." in ended.err
    assert ranks.launcher.outcomes() == ["killed", "finished"]
    assert_same_ranks(ranks, undisturbed_ranks)


def test_what_is_damaged_on_one_rank_is_put_aside_on_all(ranks: Solver, undisturbed_ranks: Path) -> None:
    # What comes behind the end of the other run is there so that this one cannot be over before it is told to stop.
    set_entry(ranks.case, "endTime", "0.36")
    saved = ranks.stop_in_the_middle(65)
    name = f"{saved / 1000:g}"
    remove_phi(ranks.case / "processor1" / name)
    ended = ranks.run()
    assert ended.code == 0 and f"not used: processor0/{name}: phi is missing in processor1" in ended.err
    assert f"resuming from processor0/{time_before(saved)} (step " in ended.err
    for rank in ("processor0", "processor1"):
        assert (ranks.case / rank / f"{name}.attempt-2").is_dir()
    assert_same_ranks(ranks, undisturbed_ranks)


def test_another_number_of_ranks_is_refused_in_the_programs_words(ranks: Solver) -> None:
    ranks.command = ["mpirun", "--oversubscribe", "-np", "3", "icoFoam", "-parallel"]
    ended = ranks.run()
    assert "number of processor directories = 2 is not equal to the number of processors = 3" in ended.err
    assert ranks.launcher.outcomes() == ["program error"]


def test_files_that_ranks_share_are_understood(meshed: Path, tmp_path: Path) -> None:
    need("mpirun", "OpenMPI")
    case = tmp_path / "case"
    shutil.copytree(meshed, case)
    set_entry(case, "endTime", "0.12")
    tool("decomposePar", "-fileHandler", "collated", at=case)
    tool(*MPIRUN, "icoFoam", "-parallel", "-fileHandler", "collated", at=case)
    adapter = OpenFoam([*MPIRUN, "icoFoam", "-parallel", "-fileHandler", "collated", "-case", os.fspath(case)])
    newest = adapter.candidates()[0]
    assert newest.step == 120 and not newest.problem and not adapter.problem_of(newest)
    path = case / "processors2" / "0.12" / "U"
    data = path.read_bytes()
    path.write_bytes(data[:3000] + data[3008:])
    assert "U has a block (of rank 0)" in adapter.problem_of(newest)
