"""The answers of real applications: two equal runs are identical, and another run is not; printed by their own tools."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lastgood.apps.results import results_of
from lastgood.launch.ports import Result
from lastgood.prove.app_results import compare_results, in_all
from lastgood.prove.difference import Comparison, Tolerance
from lastgood.prove.files import Rule
from lastgood.prove.thermo_log import read_thermo

INPUTS = Path(__file__).parents[1] / "apps"
LIMIT_S = 120.0


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def call(*command: str | Path, at: Path) -> None:
    environment = {**os.environ, "WM_PROJECT_DIR": "/usr/share/openfoam"}
    subprocess.run(command, cwd=at, check=True, capture_output=True, timeout=LIMIT_S, env=environment)


Place = Callable[[str], Path]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    def make(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    return make


def answers(application: str, command: Sequence[str], left: Path, right: Path) -> dict[str, Comparison]:
    found = [results_of(application, command, str(side)) for side in (left, right)]
    return dict(compare_results(left, found[0], right, found[1]))


@pytest.fixture(scope="module")
def water(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run input of 300 steps of a small box."""
    need("gmx")
    at = tmp_path_factory.mktemp("water")
    for name in ("topol.top", "md.mdp"):
        shutil.copy(INPUTS / "gromacs" / name, at)
    for command in (
        ("solvate", "-cs", "spc216.gro", "-box", "2.0", "-o", "conf.gro", "-p", "topol.top"),
        ("grompp", "-f", "md.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "made.tpr", "-maxwarn", "2"),
        ("convert-tpr", "-s", "made.tpr", "-nsteps", "300", "-o", "topol.tpr"),
        ("convert-tpr", "-s", "made.tpr", "-nsteps", "120", "-o", "short.tpr"),
    ):
        call("gmx", "-quiet", *command, at=at)
    return at


MDRUN = ("gmx", "-quiet", "mdrun", "-ntmpi", "1", "-ntomp", "1", "-reprod")


@pytest.mark.slow
def test_gromacs(water: Path, place: Place) -> None:
    undisturbed, appended, in_parts, other = (place(name) for name in ("undisturbed", "appended", "in_parts", "other"))
    call(*MDRUN, "-s", water / "topol.tpr", at=undisturbed)
    for where, how in ((appended, "-append"), (in_parts, "-noappend")):
        call(*MDRUN, "-s", water / "short.tpr", at=where)
        call(*MDRUN, "-s", water / "topol.tpr", "-cpi", "state.cpt", how, at=where)
    call("gmx", "-quiet", "mdrun", "-ntmpi", "1", "-ntomp", "2", "-s", water / "topol.tpr", at=other)
    assert (undisturbed / "state.cpt").read_bytes() != (appended / "state.cpt").read_bytes()

    found = answers("gromacs", MDRUN, undisturbed, appended)
    assert {one.kind for one in found.values()} == {"identical"}
    assert found["final state"].compared > 1000

    found = answers("gromacs", MDRUN, undisturbed, in_parts)
    assert {one.kind for one in found.values()} == {"identical"}
    assert len(results_of("gromacs", MDRUN, str(in_parts))[0].paths) == 2
    # Its first part has ended with a frame of its own.
    assert "1 frames more, first at step 120" in " ".join(found["energies"].notes)

    found = answers("gromacs", MDRUN, undisturbed, other)
    assert in_all(list(found.items())).kind == "differs"
    energies = found["energies"].first
    assert energies is not None
    assert energies.step == 0
    assert energies.absolute is not None


@pytest.mark.slow
def test_a_file_that_gromacs_cannot_read_is_not_comparable_and_says_so(water: Path, place: Place) -> None:
    left, right = place("left"), place("right")
    for side in (left, right):
        call(*MDRUN, "-s", water / "short.tpr", at=side)
    (right / "traj_comp.xtc").write_bytes(b"not a trajectory" * 100)
    found = answers("gromacs", MDRUN, left, right)["compressed trajectory"]
    assert found.kind == "not comparable"
    assert "traj_comp.xtc cannot be read by gmx" in found.notes[0]


@pytest.mark.slow
def test_openfoam(place: Place) -> None:
    need("icoFoam")
    sides = [place(name) for name in ("left", "right")]
    for side in sides:
        shutil.copytree(INPUTS / "openfoam", side, dirs_exist_ok=True)
        control = side / "system" / "controlDict"
        control.write_text(control.read_text().replace("endTime         0.6", "endTime         0.06"))
        call("blockMesh", at=side)
    for side in sides:
        call("icoFoam", at=side)
    found = answers("openfoam", ["icoFoam"], sides[0], sides[1])
    assert sorted(found) == ["0.06/U", "0.06/p", "0.06/phi"]
    assert {one.kind for one in found.values()} == {"identical"}
    assert found["0.06/U"].compared > 1000
    field = sides[1] / "0.06" / "U"
    data = bytearray(field.read_bytes())
    at = data.index(b"(", data.index(b"internalField")) + 1 + 24 * 5
    data[at] ^= 1
    field.write_bytes(data)
    first = answers("openfoam", ["icoFoam"], sides[0], sides[1])["0.06/U"].first
    assert first is not None
    assert (first.what, first.ulp) == ("internalField[5, 0]", 1)


LMP = ("lmp", "-in", "in.plain")


@pytest.mark.slow
def test_lammps(place: Place) -> None:
    need("lmp")
    left, resumed, other = (place(name) for name in ("left", "resumed", "other"))
    text = (
        (INPUTS / "lammps" / "in.plain")
        .read_text()
        .replace("run          8000", "run          600")
        .replace("thermo       500", "thermo       100")
    )
    (left / "in.plain").write_text(text)
    (other / "in.plain").write_text(text.replace("87287", "87288"))
    call(*LMP, at=left)
    call(*LMP, at=other)
    # Stopped after 350 steps, and resumed from 300, where it writes that frame once more.
    (resumed / "in.plain").write_text(text)
    (resumed / "in.first").write_text(text.replace("run          600", "run          350"))
    call("lmp", "-in", "in.first", at=resumed)
    begin = text.index("pair_style")
    more = "read_restart restart.a\n" + text[begin:].replace(
        "dump_modify  d sort", "dump_modify  d append yes sort"
    ).replace("run          600", "run 600 upto")
    (resumed / "in.more").write_text(more)
    call("lmp", "-in", "in.more", "-log", "log.lammps.2", at=resumed)

    found = answers("lammps", LMP, left, resumed)
    assert sorted(found) == ["data final.data", "dump dump.lj", "thermodynamic output"]
    assert found["dump dump.lj"].kind == found["data final.data"].kind == "identical"
    assert "wrote 1 frames twice" in found["dump dump.lj"].notes[0]
    assert found["thermodynamic output"].kind in ("identical", "differs")

    found = answers("lammps", LMP, left, other)
    assert in_all(list(found.items())).kind == "differs"
    first = found["dump dump.lj"].first
    assert first is not None
    assert first.step == 0
    assert first.what.startswith("atom 1.v")


@pytest.mark.slow
def test_relion(place: Place) -> None:
    need("relion_refine")
    command = (
        "relion_refine --o out/run --i particles.star --K 2 --particle_diameter 80 --tau2_fudge 2 --iter 2 --flatten_solvent "
        "--zero_mask --oversampling 0 --psi_step 24 --offset_range 2 --offset_step 2 --norm --scale --j 1 --pool 3 "
        "--dont_combine_weights_via_disc"
    ).split()
    sides = [place(name) for name in ("left", "right", "other")]
    call(sys.executable, INPUTS / "relion" / "make_input.py", sides[0], at=sides[0])
    for side in sides[1:]:
        shutil.copytree(sides[0], side, dirs_exist_ok=True)
    for side, seed in zip(sides, ("7", "7", "8"), strict=True):
        (side / "out").mkdir()
        call(*command, "--random_seed", seed, at=side)
    found = answers("relion", command, sides[0], sides[1])
    assert {"run_it002_data.star", "run_it002_model.star", "run_it002_classes.mrcs"} <= found.keys()
    assert {one.kind for one in found.values()} == {"identical"}
    assert in_all(list(answers("relion", command, sides[0], sides[2]).items())).kind == "differs"


def test_logs_of_lammps_are_one_series_in_which_the_newest_counts(tmp_path: Path) -> None:
    def log(name: str, rows: dict[int, float]) -> Path:
        path = tmp_path / name
        lines = [f"{step} {value} 0.5\n" for step, value in rows.items()]
        path.write_text("Lattice spacing 1.6\nStep Temp CPU \n" + "".join(lines) + "Loop time of 1 on 1 procs\n1 2 3\n")
        return path

    found = read_thermo([log("log.lammps", {0: 3.0, 100: 2.0, 200: 9.0}), log("log.lammps.2", {100: 2.0, 300: 1.0})])
    assert found == {0: {"Temp": "3.0"}, 100: {"Temp": "2.0"}, 300: {"Temp": "1.0"}}
    cut = tmp_path / "cut"
    cut.write_text("Step Temp\n0 1.0\n100 2")
    assert read_thermo([cut]) == {0: {"Temp": "1.0"}, 100: {"Temp": "2"}}


def test_an_application_without_known_results_proves_nothing(tmp_path: Path) -> None:
    assert results_of("quantum-espresso", ["pw.x"], str(tmp_path)) == []
    assert results_of("gromacs", ["gmx", "mdrun"], str(tmp_path)) == []
    assert results_of("lammps", ["lmp", "-in", "missing"], str(tmp_path)) == []
    assert results_of("relion", ["relion_refine", "--o", "out/run"], str(tmp_path)) == []
    assert results_of("openfoam", ["icoFoam"], str(tmp_path)) == []
    assert in_all(compare_results(tmp_path, [], tmp_path, [])).kind == "not comparable"


def test_a_result_that_only_one_run_left_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    found = compare_results(tmp_path, [Result("coordinates", ("a.txt",))], tmp_path, [])
    assert str(found[0][1].first) == "coordinates: only in the undisturbed run"


def test_a_printer_that_is_not_installed_is_said(tmp_path: Path) -> None:
    for side, text in (("left", "1"), ("right", "2")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.bin").write_text(text)
    result = Result("energies", ("a.bin",), shown_by=("no-such-printer", "{path}"))
    found = compare_results(tmp_path / "left", [result], tmp_path / "right", [result])
    assert found[0][1].kind == "not comparable"
    assert "no-such-printer is not in PATH" in found[0][1].notes[0]


def test_what_a_printer_prints_is_compared_within_a_tolerance(tmp_path: Path) -> None:
    for side, value in (("left", "1.0000"), ("right", "1.0001")):
        (tmp_path / side).mkdir()
        (tmp_path / side / "a.bin").write_text(f"date = {side}\nenergy = {value}\n")
    result = Result("energies", ("a.bin",), "text", ("^date",), ("cat", "{path}"))
    rule = Rule(Tolerance(relative=1e-3))
    sides = tmp_path / "left", tmp_path / "right"
    assert compare_results(sides[0], [result], sides[1], [result])[0][1].kind == "differs"
    found = compare_results(sides[0], [result], sides[1], [result], rule)[0][1]
    assert (found.kind, str(found.first)) == (
        "within",
        "energies, energy: 1.0000 against 1.0001, absolute 0.0001, relative 0.0001",
    )
