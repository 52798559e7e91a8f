"""What a user can get wrong with any application: it is not installed, or its directory cannot be written."""

import os
import sys
from pathlib import Path

import pytest

from launch.conftest import Launcher, launcher, without_root_powers  # noqa: F401 - a fixture

COMMANDS = {
    "gromacs": ["gmx", "mdrun", "-s", "topol.tpr"],
    "lammps": ["lmp", "-in", "in.melt"],
    "openfoam": ["icoFoam"],
    "relion": ["relion_refine", "--i", "p.star", "--o", "out/run", "--iter", "3"],
    "quantum-espresso": ["pw.x", "-in", "scf.in"],
}
INPUTS = {
    "topol.tpr": "",
    "in.melt": "units lj\nrun 10\n",
    "p.star": "",
    "scf.in": "&control\n prefix='x', outdir='./tmp'\n/\n",
    "system/controlDict": "application icoFoam;\nstartFrom startTime;\nstartTime 0;\nstopAt endTime;\nendTime 1;\n"
    "deltaT 0.1;\nwriteControl timeStep;\nwriteInterval 2;\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the inputs of all of them."""
    place = tmp_path / "place"
    for name, text in INPUTS.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    (place / "out").mkdir()
    return place


@pytest.mark.slow
@pytest.mark.parametrize("app", COMMANDS)
def test_one_that_is_not_installed_is_named_and_nothing_is_touched(launcher: Launcher, place: Path, app: str) -> None:  # noqa: F811
    empty = place.parent / "bin"
    empty.mkdir()
    before = sorted(place.rglob("*"))
    environment = {**launcher.environment, "PATH": str(empty)}
    ended = launcher.run("--app", app, "--", *COMMANDS[app], cwd=place, env=environment)
    assert ended.code == 127
    assert f"{COMMANDS[app][0]}: there is no such command in PATH" in ended.err
    assert sorted(place.rglob("*")) == before
    assert not launcher.job.exists()


@pytest.mark.slow
@pytest.mark.parametrize("app", COMMANDS)
def test_a_directory_that_cannot_be_written_is_named_and_nothing_is_started(
    launcher: Launcher,  # noqa: F811
    place: Path,
    app: str,
) -> None:
    # No program of that name needs to be there: it must not be started.
    bin_directory = place.parent / "bin"
    bin_directory.mkdir()
    program = bin_directory / COMMANDS[app][0]
    starts = place.parent / "starts"
    starts.touch()
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:2], file=open({str(starts)!r}, 'a'))\n")
    program.chmod(0o755)
    for directory in [place, *(path for path in place.rglob("*") if path.is_dir())]:
        directory.chmod(0o555)
    path = f"{bin_directory}{os.pathsep}{os.environ['PATH']}"
    try:
        ended = launcher.run(
            *("--app", app, "--", *COMMANDS[app]),
            cwd=place,
            env={**launcher.environment, "PATH": path},
            preexec_fn=without_root_powers,
        )
    finally:
        for directory in [place, *(path for path in place.rglob("*") if path.is_dir())]:
            directory.chmod(0o755)
    assert ended.code == 77, ended.err
    assert "ermission" in ended.err
    assert "Traceback" not in ended.err
    # It may be asked for its version.
    assert str(COMMANDS[app][1:2]) not in starts.read_text()
