"""What is read of LAMMPS inputs, restart files and dumps, and what is refused; nothing is started."""

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.apps.lammps import Lammps
from lastgood.apps.lammps_files import NotARestartFileError, cut_dump, parse_header, read_header
from lastgood.apps.lammps_input import Names, make_input
from lastgood.apps.lammps_plain import read_plain
from lastgood.apps.lammps_script import Script, directives_in, read_input, read_own
from lastgood.apps.lammps_words import NotConstantError, evaluate, expand, split_lines
from lastgood.core.errors import UsageError
from lastgood.launch.ports import Conditions

BOX = "create_box 1 box\ncreate_atoms 1 box\n"
MARK = b"LammpS RestartT\0"


def restart_file(step: int, *, units: str = "lj", atoms: int = 500, types: int = 1) -> bytes:
    """One with a header as LAMMPS writes it, and some bytes for all the rest."""

    def text(value: str) -> bytes:
        return struct.pack("<i", len(value) + 1) + value.encode() + b"\0"

    def number(kind: int, value: int) -> bytes:
        return struct.pack("<ii", kind, value)

    header = [
        MARK,
        struct.pack("<ii", 1, 2),
        struct.pack("<i", 0) + text("29 Sep 2021"),
        *(number(kind, value) for kind, value in ((1, 4), (48, 4), (2, 4), (3, 8))),
        struct.pack("<i", 4) + text(units),
        struct.pack("<iq", 5, step),
        *(number(kind, value) for kind, value in ((6, 3), (7, 1))),
        struct.pack("<5i", 8, 3, 1, 1, 1),
        *(number(kind, 1) for kind in (9, 10, 11, 12, 13)),
        struct.pack("<8i", 14, 6, *[0] * 6),
        struct.pack("<2i6d", 49, 6, *[0.0] * 6),
        struct.pack("<i", 15) + text("atomic") + struct.pack("<i", 0),
        struct.pack("<iq", 16, atoms),
        number(17, types),
    ]
    return b"".join(header) + bytes(range(256)) + MARK


@given(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(1, 1000))
def test_a_header_is_read_back(step: int, atoms: int, types: int) -> None:
    header = parse_header(restart_file(step, units="metal", atoms=atoms, types=types))
    assert (header.step, header.units, header.atoms, header.types) == (step, "metal", atoms, types)
    assert (header.version, header.dimension, header.atom_style) == ("29 Sep 2021", 3, "atomic")


@given(st.integers(0, len(restart_file(7)) - 1))
def test_a_file_that_was_cut_off_anywhere_is_no_restart_file(
    tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut"
    path.write_bytes(restart_file(7)[:size])
    with pytest.raises(NotARestartFileError):
        read_header(os.fspath(path))


@given(st.integers(24, len(restart_file(7)) - 16), st.integers(0, 255))
def test_any_byte_may_be_wrong_in_it(at: int, value: int) -> None:
    data = bytearray(restart_file(7))
    data[at] = value
    with contextlib.suppress(NotARestartFileError):
        parse_header(bytes(data))


def frame(step: int) -> str:
    return f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n1\nITEM: ATOMS id x\n1 0.5\n"


def frames(*steps: int) -> str:
    return "".join(frame(step) for step in steps)


@pytest.mark.parametrize(
    ("text", "step", "left"),
    [
        (frames(0, 10, 20, 30), 20, frames(0, 10)),
        (frames(0, 10, 20, 30), 25, frames(0, 10, 20)),
        (frames(0, 10, 20), 30, frames(0, 10, 20)),
        (frames(5, 10), 0, ""),
        (frames(0, 10) + "ITEM: TIMESTEP\n", 20, frames(0, 10)),
        (frames(0, 10) + "ITEM: TIMESTEP\n2", 20, frames(0, 10)),
        (frames(0, 10) + frame(20)[:40], 20, frames(0, 10)),
        (frames(100, 200, 0, 10, 20), 20, frames(100, 200, 0, 10)),
        ("of another kind\n", 0, "of another kind\n"),
        ("", 0, ""),
    ],
)
def test_frames_that_are_written_again_are_cut_off(tmp_path: Path, text: str, step: int, left: str) -> None:
    path = tmp_path / "dump"
    path.write_text(text)
    assert cut_dump(os.fspath(path), step) == len(text) - len(left)
    assert path.read_text() == left


def test_frames_are_found_at_the_edges_of_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, wanted = frames(*range(0, 300, 10)), frames(*range(0, 120, 10))
    for size in range(41, 140):
        monkeypatch.setattr("lastgood.apps.lammps_files._PIECE_BYTES", size)
        path = tmp_path / "dump"
        path.write_text(whole)
        cut_dump(os.fspath(path), 120)
        assert path.read_text() == wanted, size


def test_a_dump_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert cut_dump(os.fspath(tmp_path / "none"), 5) == 0 and not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("formula", "value"),
    [("2*3+4", 10), ("2^3^1", 8), ("-2 - -3", 1), ("(1+2)*v_n/4", 3.75), ("ceil(2.1)*1e2", 300), ("round(2.5)", 3)],
)
def test_arithmetic(formula: str, value: float) -> None:
    assert evaluate(formula, {"n": "5"}) == value


@pytest.mark.parametrize("formula", ["step", "vol*2", "random(0,1,5)", "v_unknown", "1/0", "(1", "1+", "", "c_x[1]"])
def test_what_is_no_arithmetic_is_not_constant(formula: str) -> None:
    with pytest.raises(NotConstantError):
        evaluate(formula, {})


def test_a_variable_of_one_letter_needs_no_braces() -> None:
    assert expand("$n.${n}.$(v_n*2:%03.0f)", {"n": "7"}) == "7.7.014"


def test_lines_are_joined_and_comments_left_out() -> None:
    (line,) = split_lines("pair_coeff * * &  # all\n  1.0 &\n  '# no comment'\n# a comment\n\n")
    assert line.number == 1 and line.words == ("pair_coeff", "*", "*", "1.0", "# no comment")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def plain(text: str, **variables: str) -> Script:
    Path("in.x").write_text(text)
    return read_plain("in.x", variables)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOX + "run 10\nrun 10\n", "line 4: a second `run`"),
        (BOX + "run 10 every 5 'print x'\n", "only `run N` and `run N upto`"),
        (BOX + "label x\nrun 10\njump SELF x\n", "`label`: a loop or a branch"),
        (BOX + "if '1 > 0' then 'print x'\nrun 10\n", "`if`:"),
        (BOX, "there is no `run` command"),
        ("run 10\n", "no command in it builds a system"),
        (BOX + "minimize 0 0 10 10\nrun 10\n", "the steps of `minimize` count"),
        (BOX + "restart 5 a b\nminimize 0 0 10 10\nreset_timestep 0\nrun 10\n", "`restart` before `minimize`"),
        (BOX + "fix 1 all rigid single\nrun 10\n", "`fix rigid`: not known whether"),
        ("fix 1 all property/atom i_x\n" + BOX + "run 10\n", "a fix before the system is built"),
        (BOX + "variable v equal vol\nfix 1 all deform 1 x final 0 ${v}\nrun 10\n", "${v} has another value"),
        (BOX + "fix 1 all nvt temp $(temp) 1 1\nrun 10\n", "temp has another value"),
        ("region r block 0 $(lx) 0 1 0 1\n" + BOX + "run 10\n", "lx has another value"),
        (BOX + "variable v equal elapsed\nrun 10\n", "`elapsed` counts from where a run begins"),
        (BOX + "variable v loop 5\nrun 10\n", "`variable loop`"),
        (BOX + "dump 1 all dcd 10 x.dcd\nrun 10\n", "would write x.dcd anew"),
        (BOX + "dump 1 all custom 10 x.gz id\nrun 10\n", "would write x.gz anew"),
        (BOX + "dump 1 all atom 10 x\ndump_modify 1 time yes\nrun 10\n", "`dump_modify time`"),
        (BOX + "restart 5 rs.%\nrun 10\n", "restart files in pieces"),
        (BOX + "group g dynamic all every 5\nrun 10\n", "`group dynamic`"),
        (BOX + "compute 1 all chunk/atom bin/1d x lower 1 ids once\nrun 10\n", "`compute ... once`"),
        ("region r block 0 1 0 1 0 1 move v_x NULL NULL\n" + BOX + "run 10\n", "a region that moves"),
        (BOX + "shell cd elsewhere\nrun 10\n", "`shell cd`"),
        (BOX + "frobnicate 5\nrun 10\n", "`frobnicate` before the run: not known"),
        (BOX + "run ten\n", "ten has another value"),
        (BOX + "run\n", "`run` cannot be read"),
        ('print """x\n""" \n', "text in triple quotes"),
        ("include none\n", "there is no LAMMPS input none"),
        ("include in.x\n", "include each other"),
        ("read_restart none\nrun 10\n", "none cannot be read"),
    ],
)
def test_what_cannot_be_continued_safely_is_refused(place: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        plain(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("run 10", 0, 10),
        ("run 10 upto", 0, 10),
        ("reset_timestep 5\nrun 10", 5, 15),
        ("reset_timestep 5\nrun 10 upto", 5, 10),
        ("variable n index 3\nrun $(v_n*4)", 0, 12),
        ("variable n equal 3*5\nrun ${n}", 0, 15),
        ("minimize 0 0 10 10\nreset_timestep 0\nrun 10", 0, 10),
    ],
)
def test_the_last_step(place: Path, text: str, first: int, last: int) -> None:
    script = plain(BOX + text)
    assert (script.first_step, script.last_step) == (first, last)


def test_a_variable_of_the_command_line_counts(place: Path) -> None:
    assert plain(BOX + "variable n index 3\nrun $n\n", n="8").last_step == 8


def test_a_run_that_continues_another_begins_at_its_step(place: Path) -> None:
    Path("rs").write_bytes(restart_file(70))
    script = plain("read_restart rs\nrun 10\n")
    assert (script.first_step, script.last_step) == (70, 80)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("restart 5 a b\nrun 10", ("a", "b")),
        ("restart 5 rs.*\nrun 10", ("rs.*",)),
        ("restart 5 rs\nrun 10", ("rs.*",)),
        ("restart 5 a b\nrestart 0\nrun 10", ()),
        ("restart 5 ./d/a d/b\nrun 10\nwrite_restart end", ("d/a", "d/b", "end")),
        ("write_restart first\nrun 10", ()),
    ],
)
def test_where_restart_files_are(place: Path, text: str, patterns: tuple[str, ...]) -> None:
    assert plain(BOX + text).patterns == patterns


def test_a_resumed_input_builds_nothing_and_overwrites_nothing(place: Path) -> None:
    script = plain(
        "units lj\n" + BOX + "velocity all create 1 1\nwrite_data start\ndump d all atom 10 x.dump\nlog a.log\n"
        "fix p all print 5 x file x.txt\nrun 100\nwrite_data end\n"
    )
    lines = make_input(script, Names.of("in.x"), ("restart.a", 50), None).splitlines()
    assert lines[1:10] == [
        "units lj",
        "# create_box 1 box",
        "read_restart restart.a",
        "# create_atoms 1 box",
        "# velocity all create 1 1",
        "# write_data start",
        "dump d all atom 10 x.dump",
        "dump_modify d append yes",
        "log a.log append",
    ]
    assert "fix p all print 5 x file x.txt.from-50" in lines
    assert "run 100 upto start 0 stop 100" in lines
    assert lines.index("write_data end") > next(at for at, line in enumerate(lines) if '"quit 0"' in line)


@pytest.mark.parametrize(
    ("line", "resumed"),
    [
        ("fix p all print 5 'a file x' file x.txt", "fix p all print 5 'a file x' file x.txt.from-50"),
        ('fix p all print 5 x file "x y"', 'fix p all print 5 x file "x y.from-50"'),
        (
            "fix a all ave/time 1 1 5 c_t mode scalar file a.b",
            "fix a all ave/time 1 1 5 c_t mode scalar file a.b.from-50",
        ),
    ],
)
def test_a_file_of_a_fix_is_not_overwritten(place: Path, line: str, resumed: str) -> None:
    script = plain(BOX + line + "\nrun 100\n")
    assert resumed in make_input(script, Names.of("in.x"), ("restart.a", 50), None).splitlines()
    assert line in make_input(script, Names.of("in.x"), None, None).splitlines()


def test_a_name_with_a_space_is_quoted(place: Path) -> None:
    script = plain(BOX + "restart 5 'a b' c\nrun 100\n")
    assert script.patterns == ("a b", "c")
    assert 'read_restart "a b"' in make_input(script, Names.of("in.x"), ("a b", 50), None).splitlines()


@pytest.mark.parametrize(
    "before",
    [[], ["srun", "--mpi=pmix"], ["mpirun", "--oversubscribe"], ["srun", "-o", "lmp.out", "-n", "2"]],
)
@pytest.mark.parametrize("program", ["lmp", "lmp_mpi", "/opt/lammps/bin/lmp_g++_openmpi"])
def test_the_program_is_found_behind_a_launcher(place: Path, before: list[str], program: str) -> None:
    Path("in.x").write_text(BOX + "restart 5 a b\nrun 100\n")
    order = Lammps([*before, program, "-i", "in.x", "-v", "n", "5"]).order(None, Conditions(60.0))
    assert order.command == [*before, program, "-in", "in.x.lastgood-input", "-var", "n", "5"]


def test_a_first_input_has_the_same_commands_and_more(place: Path) -> None:
    text = "units lj\n" + BOX + "dump d all atom 10 x.dump\nrestart 10 a b\nrun 100\nwrite_data end\n"
    lines = make_input(plain(text), Names.of("in.x"), None, 90.0).splitlines()
    assert [line for line in text.splitlines() if line not in lines] == ["run 100"]
    assert "timer timeout 90 every 10" in lines


OWN = "# lastgood resume: -var resume FILE\n# lastgood last-step: ${n}\nvariable n index 40\n"


def own(text: str, **variables: str) -> Script:
    Path("in.x").write_text(text)
    text = read_input("in.x")
    return read_own("in.x", text, directives_in("in.x", text), variables)


def test_an_input_says_itself_how_it_resumes(place: Path) -> None:
    script = own(OWN + "restart 5 a b\njump SELF x\n", n="50")
    assert script.resume == ("-var", "resume", "FILE") and script.last_step == 50 and script.patterns == ("a", "b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# lastgood resum: x\n", "`# lastgood resum:` is not known"),
        ("# lastgood resume: -var r x\n", "do not say how it resumes from a FILE"),
        ("# lastgood resume: -var r FILE\n", "do not say at which step the work is done"),
        (OWN + "write_restart rs.$(step)\n", "the name of the restart file depends on step"),
    ],
)
def test_what_it_does_not_say_is_asked_for(place: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        own(text)
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["resume", "restart-files"])
def test_quotes_that_are_not_closed_are_named_with_their_line(place: Path, name: str) -> None:
    text = f"units lj\n\n# lastgood {name}: -var resume 'FILE\n# lastgood last-step: 100\n"
    text += "" if name == "resume" else "# lastgood resume: -var resume FILE\n"
    with pytest.raises(UsageError, match=f"in.x, line 3: `# lastgood {name}: -var resume 'FILE`: No closing quotation"):
        own(text)


def lammps(text: str) -> Lammps:
    Path("in.x").write_text(text)
    return Lammps(["lmp", "-in", "in.x"])


def test_the_step_inside_tells_which_is_the_newest(place: Path) -> None:
    adapter = lammps(BOX + "restart 5 a b\nrun 100\n")
    Path("a").write_bytes(restart_file(90))
    Path("b").write_bytes(restart_file(80))
    assert [(found.path, found.step) for found in adapter.candidates()] == [("a", 90), ("b", 80)]


def test_numbered_files_are_found_and_what_was_put_aside_is_not(place: Path) -> None:
    adapter = lammps(BOX + "restart 5 rs.*\nrun 100\n")
    for name, step in (("rs.5", 5), ("rs.10", 10), ("rs.15.attempt-2", 15), ("rs.base", 20)):
        Path(name).write_bytes(restart_file(step))
    assert [found.path for found in adapter.candidates()] == ["rs.10", "rs.5"]


def test_one_that_cannot_be_read_stands_where_it_was_written(place: Path) -> None:
    adapter = lammps(BOX + "restart 5 a b\nrun 100\n")
    Path("a").write_bytes(restart_file(90))
    Path("b").write_bytes(b"")
    os.utime("a", (1000, 1000))
    os.utime("b", (2000, 2000))
    assert [found.path for found in adapter.candidates()] == ["b", "a"]
    os.utime("b", (500, 500))
    assert [found.path for found in adapter.candidates()] == ["a", "b"]
    assert adapter.candidates()[1].may_be_cut_off


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (restart_file(200), "is behind the last step"),
        (restart_file(50, units="metal"), "its units is metal"),
        (restart_file(50, types=3), "its number of atom types is 3"),
        (restart_file(50), ""),
    ],
)
def test_a_restart_file_of_another_run_is_named(place: Path, content: bytes, message: str) -> None:
    adapter = lammps("units lj\natom_style atomic\n" + BOX + "restart 5 a b\nrun 100\n")
    Path("a").write_bytes(content)
    problem = adapter.problem_of(adapter.candidates()[0])
    assert message in problem and bool(message) == bool(problem)


def test_another_number_of_atoms_is_another_system(place: Path) -> None:
    adapter = lammps(BOX + "restart 5 a b\nrun 100\n")
    Path("a").write_bytes(restart_file(50, atoms=400))
    Path("in.x.lastgood-system").write_text("500 0123\n")
    assert "it has 400 atoms, the run began with 500" in adapter.problem_of(adapter.candidates()[0])
    losing = lammps(BOX + "thermo_modify lost ignore\nrestart 5 a b\nrun 100\n")
    assert "atoms" not in losing.problem_of(losing.candidates()[0])


def test_a_stop_request_of_before_is_taken_away(place: Path) -> None:
    adapter = lammps(BOX + "restart 5 a b\nrun 100\n")
    assert adapter.ask_to_stop(15).signal is None
    assert Path("in.x.lastgood-STOP").exists()
    order = adapter.order(None, Conditions(60.0))
    assert not Path("in.x.lastgood-STOP").exists() and order.command == ["lmp", "-in", "in.x.lastgood-input"]


def test_a_resumed_run_gets_a_log_of_its_own(place: Path) -> None:
    adapter = lammps(BOX + "restart 5 a b\nrun 100\n")
    Path("a").write_bytes(restart_file(50))
    Path("log.lammps.2").write_text("")
    order = adapter.order(adapter.candidates()[0], Conditions(60.0))
    assert order.command[-2:] == ["-log", "log.lammps.3"]


def test_an_input_without_a_way_to_stop_gets_the_signal(place: Path) -> None:
    adapter = lammps(OWN + "restart 5 a b\n")
    assert adapter.ask_to_stop(15).signal == 15
    assert "a stop loses what it did since" in " ".join(adapter.order(None, Conditions(60.0)).notes)


def test_notes_tell_what_a_restart_file_does_not_hold(place: Path) -> None:
    script = plain(BOX + "fix 1 all langevin 1 1 1 5\npair_style dpd 1 1 5\nrun 10\n")
    assert "its random state is in no restart file" in script.notes[0] and "pair_style dpd" in script.notes[1]
