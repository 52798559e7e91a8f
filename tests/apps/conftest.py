"""Real applications, started by the real launcher."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood.core.heartbeat import TOLD
from lastgood.launch.standing import standing_of
from lastgood.store.jobdir import open_job
from launch.conftest import LIMIT_S, Ended, Launcher, launcher, wait_for  # noqa: F401 - a fixture

from .held import Holds

HERE = Path(__file__).parent


def need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{package} is not installed")


@pytest.fixture(scope="session")
def make_run_input(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A run input (.tpr) of water in a box with an edge of some nm, of as many steps."""
    need("gmx", "GROMACS")
    made: dict[tuple[float, int], Path] = {}

    def make(edge_nm: float = 2.2, steps: int = 3000) -> Path:
        if (edge_nm, steps) not in made:
            place = tmp_path_factory.mktemp("tpr")
            shutil.copy(HERE / "gromacs" / "topol.top", place)
            for command in (
                ["solvate", "-cs", "spc216.gro", "-box", str(edge_nm), "-o", "conf.gro", "-p", "topol.top"],
                ["grompp", "-f", HERE / "gromacs" / "md.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "made.tpr"],
                ["convert-tpr", "-s", "made.tpr", "-nsteps", str(steps), "-o", "topol.tpr"],
            ):
                subprocess.run(["gmx", "-quiet", *command], cwd=place, check=True, capture_output=True, timeout=LIMIT_S)
            made[edge_nm, steps] = place / "topol.tpr"
        return made[edge_nm, steps]

    return make


def assert_loss_is_known(launcher: Launcher, attempt: int = 1, at_least: int = 0) -> None:  # noqa: F811
    """Of an attempt that was killed, by the last step that the application told of itself."""
    accounts = standing_of(open_job(launcher.job)).attempts
    lost, following = accounts[attempt - 1 : attempt + 1]
    assert lost.is_loss_known and lost.reached_step is not None and following.from_step is not None
    told = launcher.event(attempt, "ended")["step"]
    assert told >= at_least and lost.reached_step == max(told, lost.saved_step or 0)
    assert lost.lost_steps == lost.reached_step - following.from_step


def segments(
    launcher: Launcher,  # noqa: F811
    run: Callable[[tuple[str, ...]], Ended],
    limit_s: float,
    grace: str,
) -> Iterator[tuple[Ended, int]]:
    """Segments with a time limit, and the step that each has saved; the last one that `run` gives ends with code 0, and
    is not among them.

    The limit counts from the start of the launcher. Where a busy machine needs all of it to start the application, the
    segment gets nowhere and is left out. Each has twice the time of the one before.
    """
    saved, end = 0, time.monotonic() + 3 * LIMIT_S
    while (ended := run(("--time-limit", f"{limit_s:g}s", "--grace", grace))).code != 0:
        assert ended.code == 75, ended.err
        assert time.monotonic() < end, "it does not get on"
        attempts = range(1, len(launcher.outcomes()) + 1)
        committed = [e["data"]["step"] for n in attempts for e in launcher.events(n) if e["kind"] == "committed"]
        newest = int(committed[-1]) if committed else 0
        assert newest >= saved
        if newest > saved:
            saved = newest
            yield ended, saved
        limit_s *= 2


def wait_for_progress(launcher: Launcher) -> None:  # noqa: F811
    """Until `lastgood status` would show how far an application has come while it runs."""

    def is_told() -> bool:
        assert launcher.processes[-1].poll() is None, launcher.output(-1, "err")
        live = standing_of(open_job(launcher.job)).live if (launcher.job / "job.json").exists() else None
        return live is not None and live.phase == TOLD and live.step > 0

    wait_for(is_told, "progress")


def refuse_to_save(launcher: Launcher, why: str) -> None:  # noqa: F811
    """SIGUSR2 to the launcher of an application that would die of it."""
    launcher.processes[-1].send_signal(signal.SIGUSR2)
    launcher.wait_for_output(f"SIGUSR2: nothing was sent: {why}", "err")


class Mdrun:
    """One simulation in a directory of its own, from the same run input as all others of its size."""

    def __init__(self, launcher: Launcher, run_input: Path) -> None:  # noqa: F811
        self.launcher = launcher
        self.directory = launcher.directory
        shutil.copy(run_input, self.directory / "topol.tpr")
        self.command = ["gmx", "mdrun", "-ntmpi", "1", "-ntomp", "1", "-reprod"]
        self.options = ["--app", "gromacs", "--save-every", "500ms"]
        self.holds = Holds(launcher, "gmx", "-reprod")

    def hold(self, saves: int = 2) -> int:
        """The next start when it has saved so often: from the second one on there is a checkpoint before the newest."""
        return self.holds.add("rename", saves, is_in_thread=True)

    def words(self, *more: str, options: tuple[str, ...] = ()) -> list[str]:
        return [*self.options, *options, "--", *self.command, *more]

    def run(self, *more: str, options: tuple[str, ...] = ()) -> Ended:
        return self.launcher.run(*self.words(*more, options=options))

    def start(self, *more: str, options: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
        return self.launcher.start(*self.words(*more, options=options))

    def file(self, name: str) -> Path:
        return self.directory / name


@pytest.fixture
def mdrun(launcher: Launcher, make_run_input: Callable[[float], Path]) -> Mdrun:  # noqa: F811
    return Mdrun(launcher, make_run_input(2.2))


@pytest.fixture(scope="session")
def undisturbed(make_run_input: Callable[[float], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the same simulation gives when nothing happens to it and nobody of us is there."""
    place = tmp_path_factory.mktemp("undisturbed")
    shutil.copy(make_run_input(2.2), place / "topol.tpr")
    subprocess.run(
        ["gmx", "-quiet", "mdrun", "-ntmpi", "1", "-ntomp", "1", "-reprod"],
        cwd=place,
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )
    return place
