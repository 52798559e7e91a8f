"""Real GROMACS: killed, stopped, damaged, and at the end the same trajectory as if nothing had happened."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lastgood.apps.gromacs import Gromacs
from lastgood.core.errors import UsageError
from launch.conftest import LIMIT_S, Launcher

from .conftest import Mdrun, assert_loss_is_known, need, refuse_to_save, segments, wait_for_progress
from .held import Holds

pytestmark = pytest.mark.slow

RESULTS = ("confout.gro", "ener.edr", "traj.trr", "traj_comp.xtc")


def assert_same(mdrun: Mdrun, undisturbed: Path) -> None:
    for name in RESULTS:
        assert mdrun.file(name).read_bytes() == (undisturbed / name).read_bytes(), name


def wait_for_two_checkpoints(mdrun: Mdrun, hold: int) -> psutil.Process:
    """The process that computes, with the work left that a hold has left."""
    process = mdrun.holds.wait(hold)
    assert mdrun.file("state.cpt").exists() and mdrun.file("state_prev.cpt").exists()
    return process


def stop_in_the_middle(mdrun: Mdrun) -> None:
    """Ends with two checkpoints that are whole, and work left."""
    hold = mdrun.hold()
    process = mdrun.start()
    wait_for_two_checkpoints(mdrun, hold)
    mdrun.holds.stop(hold)
    assert mdrun.launcher.end_of(process).code == 75


def test_killed_twice_it_ends_with_the_bytes_of_an_undisturbed_run(mdrun: Mdrun, undisturbed: Path) -> None:
    holds = [mdrun.hold(), mdrun.hold(saves=1)]
    process = mdrun.start()
    wait_for_two_checkpoints(mdrun, holds[0]).kill()
    mdrun.launcher.wait_for_output("attempt 2 of", "err")
    mdrun.holds.wait(holds[1]).kill()
    ended = mdrun.launcher.end_of(process)
    assert ended.code == 0
    assert "resuming from state.cpt (step " in ended.err and "step 3000 of 3000 is reached" in ended.err
    assert mdrun.launcher.outcomes() == ["killed", "killed", "finished"]
    assert_loss_is_known(mdrun.launcher, 1)
    assert_loss_is_known(mdrun.launcher, 2)
    assert_same(mdrun, undisturbed)


def test_asked_to_stop_it_saves_and_goes_on_later(mdrun: Mdrun, undisturbed: Path) -> None:
    hold = mdrun.hold()
    process = mdrun.start()
    wait_for_two_checkpoints(mdrun, hold)
    wait_for_progress(mdrun.launcher)
    refuse_to_save(mdrun.launcher, "mdrun saves at its own times only")
    mdrun.holds.stop(hold)
    assert mdrun.launcher.end_of(process).code == 75
    saved = mdrun.launcher.event(1, "committed")["step"]
    ended = mdrun.run()
    assert ended.code == 0 and f"resuming from state.cpt (step {saved}" in ended.err
    assert mdrun.launcher.outcomes() == ["preempted", "finished"]
    assert_same(mdrun, undisturbed)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_the_end(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path) -> None:
    os.truncate(path, 0)


def flip_in_the_coordinates(path: Path) -> None:
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    # As a device does it: nobody has written to the file.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (truncate, "its end is missing"),
        (cut_the_end, "its end is missing"),
        (zero, "it begins with 0"),
        (empty, "it is empty"),
        (flip_in_the_coordinates, "its bytes are not those that were written"),
        (Path.unlink, ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_damaged_newest_checkpoint_is_passed_over(
    mdrun: Mdrun, undisturbed: Path, damage: Callable[[Path], None], words: str
) -> None:
    stop_in_the_middle(mdrun)
    damage(mdrun.file("state.cpt"))
    ended = mdrun.run()
    assert ended.code == 0 and "resuming from state_prev.cpt" in ended.err
    if words:
        assert f"not used: state.cpt: {words}" in ended.err
        assert mdrun.file("state.cpt.attempt-2").exists()
    assert_same(mdrun, undisturbed)


def test_where_no_checkpoint_is_left_it_does_not_begin_from_zero(mdrun: Mdrun) -> None:
    stop_in_the_middle(mdrun)
    before = mdrun.file("traj.trr").read_bytes()
    for name in ("state.cpt", "state_prev.cpt"):
        mdrun.file(name).unlink()
    ended = mdrun.run()
    assert ended.code == 80 and "will not start GROMACS from zero" in ended.err
    assert mdrun.file("traj.trr").read_bytes() == before
    assert mdrun.run(options=("--fresh",)).code == 0


def test_a_new_start_leaves_no_old_checkpoint_to_fall_back_to(mdrun: Mdrun) -> None:
    stop_in_the_middle(mdrun)
    before = {name: mdrun.file(name).read_bytes() for name in ("state.cpt", "state_prev.cpt")}
    ended = mdrun.run(options=("--fresh",))
    assert ended.code == 0 and "fresh start" in ended.err
    assert {name: mdrun.file(f"{name}.attempt-2").read_bytes() for name in before} == before


@pytest.mark.parametrize("name", ["ener.edr", "md.log", "traj.trr"])
def test_where_an_output_is_gone_it_goes_on_in_new_files(mdrun: Mdrun, name: str) -> None:
    stop_in_the_middle(mdrun)
    mdrun.file(name).unlink()
    ended = mdrun.run()
    assert ended.code == 0 and f"goes on in new files (-noappend): {name} is missing" in ended.err
    assert list(mdrun.directory.glob("*.part0002.*"))


def test_where_an_output_was_edited_it_goes_on_in_new_files(mdrun: Mdrun) -> None:
    stop_in_the_middle(mdrun)
    log = mdrun.file("md.log")
    log.write_text(log.read_text(errors="replace").replace("GROMACS", "gromacs", 1))
    ended = mdrun.run()
    assert ended.code == 0 and "md.log is not as it was written" in ended.err


def test_what_went_on_in_new_files_goes_on_in_newer_ones(mdrun: Mdrun) -> None:
    stop_in_the_middle(mdrun)
    mdrun.file("md.log").unlink()
    hold = mdrun.hold(saves=1)
    process = mdrun.start()
    mdrun.launcher.wait_for_output("goes on in new files (-noappend): md.log is missing", "err")
    mdrun.holds.stop(hold)
    assert mdrun.launcher.end_of(process).code == 75
    ended = mdrun.run()
    assert ended.code == 0 and "(-noappend): md.part0002.log is not md.log, which this command writes" in ended.err


@pytest.fixture
def earlier(mdrun: Mdrun, make_run_input: Callable[[float, int], Path]) -> Callable[..., None]:
    """A run of the first 300 steps, which the one of 3000 is the extension of."""

    def run(*options: str) -> None:
        command = [
            "gmx",
            "-quiet",
            "mdrun",
            "-ntmpi",
            "1",
            "-ntomp",
            "1",
            "-s",
            str(make_run_input(2.2, 300)),
            *options,
        ]
        subprocess.run(command, cwd=mdrun.directory, check=True, capture_output=True, timeout=LIMIT_S)

    return run


def test_it_begins_from_the_checkpoint_that_is_given_and_goes_on_from_its_own(
    mdrun: Mdrun, earlier: Callable[..., None]
) -> None:
    earlier("-deffnm", "first.1")
    mdrun.command += ["-cpi", "first.1"]
    stop_in_the_middle(mdrun)
    said = mdrun.launcher.output(-1, "err")
    assert "begins from first.1.cpt (step 300), as -cpi says" in said
    assert "(-noappend): first.1.log is not md.log, which this command writes" in said
    assert mdrun.file("md.part0002.log").exists() and not mdrun.file("md.log").exists()
    ended = mdrun.run()
    assert ended.code == 0 and "resuming from state.cpt" in ended.err and "as -cpi says" not in ended.err


def test_where_the_names_are_those_of_the_given_checkpoint_it_appends(
    mdrun: Mdrun, earlier: Callable[..., None]
) -> None:
    earlier()
    ended = mdrun.run("-cpi", "state.cpt", "-cpo", "next.cpt")
    assert ended.code == 0 and "begins from state.cpt (step 300)" in ended.err and "-noappend" not in ended.err
    assert not list(mdrun.directory.glob("*.part*"))


def test_a_given_checkpoint_that_is_not_there_is_named(mdrun: Mdrun) -> None:
    ended = mdrun.run("-cpi", "previous.cpt")
    assert ended.code == 2 and "cannot begin from -cpi previous.cpt: it is not there" in ended.err
    assert not mdrun.file("md.log").exists()


def test_its_own_checkpoint_may_be_given_before_it_is_there(mdrun: Mdrun) -> None:
    ended = mdrun.run("-cpi", "-cpo", "state")
    assert ended.code == 0 and "fresh start" in ended.err and "as -cpi says" not in ended.err


def test_names_with_dots_get_their_suffix_as_gromacs_gives_it(mdrun: Mdrun) -> None:
    mdrun.file("topol.tpr").rename(mdrun.file("step7.1_x.tpr"))
    assert mdrun.run("-deffnm", "step7.1_x").code == 0
    assert "step 3000 of 3000 is reached, and the results are there" in mdrun.run("-deffnm", "step7.1_x").err


def test_a_run_that_is_done_is_not_started_again(mdrun: Mdrun) -> None:
    assert mdrun.run().code == 0
    before = {path.name: path.stat().st_mtime_ns for path in mdrun.directory.glob("*.*") if path.is_file()}
    ended = mdrun.run()
    after = {path.name: path.stat().st_mtime_ns for path in mdrun.directory.glob("*.*") if path.is_file()}
    assert ended.code == 0 and "has nothing to do: step 3000 of 3000 is reached" in ended.err
    assert before == after


def test_its_own_message_is_shown_and_it_is_not_tried_again(mdrun: Mdrun) -> None:
    ended = mdrun.run("-no-such-option")
    assert ended.code == 1
    assert "Unknown command-line option -no-such-option" in ended.err
    assert mdrun.launcher.outcomes() == ["program error"]


def test_a_checkpoint_of_another_system_is_refused(mdrun: Mdrun, make_run_input: Callable[[float], Path]) -> None:
    stop_in_the_middle(mdrun)
    mdrun.file("topol.tpr").write_bytes(make_run_input(1.9).read_bytes())
    ended = mdrun.run()
    assert ended.code == 80 and "is of another system" in ended.err
    assert mdrun.file("state.cpt").exists()


def test_a_time_limit_makes_a_segment(
    launcher: Launcher,
    make_run_input: Callable[..., Path],
    tmp_path: Path,
) -> None:
    # So long that no machine does it in one segment.
    mdrun = Mdrun(launcher, make_run_input(2.2, 6000))
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(mdrun.file("topol.tpr"), alone)
    subprocess.run(mdrun.command, cwd=alone, check=True, capture_output=True, timeout=LIMIT_S)
    saved = [step for _, step in segments(launcher, lambda limits: mdrun.run(options=limits), 4.0, "1s")]
    assert saved and saved[-1] < 6000
    assert launcher.event(len(launcher.outcomes()), "started")["step"] == saved[-1]
    assert_same(mdrun, alone)


def test_two_launchers_do_not_work_in_one_directory(mdrun: Mdrun, tmp_path: Path) -> None:
    hold = mdrun.hold()
    process = mdrun.start()
    wait_for_two_checkpoints(mdrun, hold)
    other = mdrun.launcher.run(*mdrun.words(), job=tmp_path / "other")
    assert other.code == 86 and "another launcher runs GROMACS" in other.err
    mdrun.holds.let_go(hold)
    assert mdrun.launcher.end_of(process).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gmx", "mdrun", "-nsteps", "100"], "cannot continue a run with -nsteps"),
        (["gmx", "mdrun", "-cpt", "-1"], "writes no checkpoints"),
        (["gmx", "energy"], "the command runs no mdrun"),
    ],
)
def test_what_cannot_be_continued_is_refused_before_anything_runs(mdrun: Mdrun, words: list[str], message: str) -> None:
    ended = mdrun.launcher.run(*mdrun.options, "--", *words)
    assert ended.code == 2 and message in ended.err
    assert not mdrun.file("md.log").exists()


def test_a_command_without_any_option_has_the_names_that_gromacs_gives() -> None:
    assert Gromacs(["gmx", "mdrun"]).lock_path() == ".lastgood-state.cpt.lock"


def test_options_of_gmx_itself_may_stand_before_mdrun() -> None:
    ranks = Gromacs(["mpirun", "-np", "2", "/opt/gmx_mpi", "-quiet", "-nobackup", "mdrun", "-v"])
    assert ranks.ask_to_stop(signal.SIGTERM).only_to == ("gmx_mpi",)
    mdrun_only = Gromacs(["mpirun", "-np", "2", "/opt/mdrun_mpi", "-v"])
    assert mdrun_only.ask_to_stop(signal.SIGTERM).only_to == ("mdrun_mpi",)
    with pytest.raises(UsageError, match="runs no mdrun"):
        Gromacs(["program", "-o", "mdrun"])


def test_a_missing_run_input_is_named(mdrun: Mdrun) -> None:
    mdrun.file("topol.tpr").unlink()
    ended = mdrun.run()
    assert ended.code == 2 and "topol.tpr is no run input" in ended.err


def test_of_two_mpi_ranks_one_is_killed(mdrun: Mdrun) -> None:
    need("gmx_mpi", "GROMACS")
    need("mpirun", "OpenMPI")
    mdrun.launcher.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mdrun.command = ["mpirun", "--oversubscribe", "-np", "2", "gmx_mpi", "mdrun", "-ntomp", "1", "-reprod"]
    mdrun.holds = Holds(mdrun.launcher, "gmx_mpi", "-reprod")
    hold = mdrun.hold()
    process = mdrun.start()
    wait_for_two_checkpoints(mdrun, hold).kill()
    ended = mdrun.launcher.end_of(process)
    assert ended.code == 0 and "resuming from state.cpt" in ended.err
    assert mdrun.launcher.outcomes()[-1] == "finished"


@pytest.mark.parametrize("is_mdrun_only", [False, True])
def test_mpirun_does_not_kill_ranks_that_are_asked_to_save(mdrun: Mdrun, is_mdrun_only: bool) -> None:
    need("gmx_mpi", "GROMACS")
    need("mpirun", "OpenMPI")
    mdrun.launcher.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    program = ["gmx_mpi", "mdrun"]
    mdrun.holds = Holds(mdrun.launcher, "gmx_mpi", "-reprod")
    if is_mdrun_only:
        # Its processes have that name; what this build has to be told stands in a script of the same.
        real = mdrun.file("bin/mdrun_mpi")
        real.parent.mkdir()
        shutil.copy(str(shutil.which("gmx_mpi")), real)
        mdrun.holds = Holds(mdrun.launcher, "mdrun_mpi", "-reprod", str(real), "mdrun")
        program = [str(mdrun.holds.script)]
    mdrun.command = ["mpirun", "--oversubscribe", "-np", "2", *program, "-ntomp", "1", "-reprod"]
    stop_in_the_middle(mdrun)
    assert "Received the TERM signal" in mdrun.launcher.log
    assert mdrun.run().code == 0
