"""Edits of OpenFOAM's control dictionary: what is set counts, and everything else stays to the byte."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.apps.openfoam_case import Case
from lastgood.apps.openfoam_control import entries, is_whole_in_text, value_of, with_value
from lastgood.apps.openfoam_files import complaint, times_in

HERE = Path(__file__).parent

COMMENTS = st.sampled_from(
    ["", " ", "\n", "// stopAt writeNow;\n", "/* stopAt { */", "/**/\n", '\t// a "quote\n', "\r\n"]
)
WORDS = st.sampled_from(["endTime", "deltaT", "application", "stopAt", "writeFormat", '"a.*"'])
VALUES = st.sampled_from(
    ["3", "1e-05", "endTime", "writeNow", '"; }"', "(1 2 (3))", "[0 1 -1]", "#{ stopAt; #}", "a  b"]
)


@st.composite
def entry_texts(draw: st.DrawFn, depth: int = 1) -> str:
    before, between, after = draw(COMMENTS), draw(COMMENTS), draw(COMMENTS)
    key = draw(WORDS)
    if depth and draw(st.booleans()):
        inside = "".join(draw(st.lists(entry_texts(depth=depth - 1), max_size=3)))
        return f"{before}{draw(st.sampled_from(['functions', 'OptimisationSwitches']))}{between}{{{inside}{after}}}\n"
    return f"{before}{key} {between}{draw(VALUES)}{after};\n"


TEXTS = st.lists(entry_texts(), max_size=6).map("".join)


@given(TEXTS, st.sampled_from(["", "OptimisationSwitches"]))
def test_a_value_that_was_set_is_what_counts(text: str, inside: str) -> None:
    edited = with_value(text, "stopAt", "endTime", inside)
    assert value_of(edited, "stopAt", inside) == "endTime"
    assert with_value(edited, "stopAt", "endTime", inside) == edited


@given(TEXTS, st.sampled_from(["", "OptimisationSwitches"]))
def test_an_edit_leaves_all_else_as_it_is(text: str, inside: str) -> None:
    edited = with_value(text, "stopAt", "elsewhen", inside)
    begin = next((i for i, (a, b) in enumerate(zip(text, edited, strict=False)) if a != b), min(len(text), len(edited)))
    end = 0
    while end < min(len(text), len(edited)) - begin and text[len(text) - end - 1] == edited[len(edited) - end - 1]:
        end += 1
    lost = text[begin : len(text) - end]
    old = value_of(text, "stopAt", inside)
    assert lost in (old or "") or lost.strip('"') in (old or "")
    for key in ("endTime", "deltaT", "application", "writeFormat"):
        assert value_of(edited, key, inside) == value_of(text, key, inside)


@given(st.text(alphabet='ab;{}()[]"/*#$\n \\', max_size=60))
def test_any_text_is_read_to_its_end(text: str) -> None:
    for entry in entries(text).found:
        assert 0 <= entry.begin <= entry.end <= len(text)
    value_of(with_value(text, "a", "b"), "a")


def test_a_value_in_a_dictionary_of_its_own_is_another() -> None:
    text = "functions\n{\n    f { stopAt writeNow; }\n}\n"
    assert value_of(text, "stopAt") is None
    assert with_value(text, "stopAt", "endTime").startswith(text)


def test_what_an_include_sets_is_overruled_at_the_end() -> None:
    text = 'stopAt writeNow;\n#include "more"\n'
    assert not is_whole_in_text(text)
    assert with_value(text, "stopAt", "endTime") == f"{text}stopAt endTime;  // added by lastgood\n"


def test_a_switch_is_added_where_switches_are() -> None:
    text = "OptimisationSwitches\n{\n    fileHandler collated; // as told\n}\nendTime 3;\n"
    assert with_value(text, "writeNowSignal", "12", "OptimisationSwitches") == (
        "OptimisationSwitches\n{\n    fileHandler collated; // as told\n    writeNowSignal 12;  // added by lastgood\n}\n"
        "endTime 3;\n"
    )


def make_case(tmp_path: Path) -> tuple[Case, Path]:
    shutil.copytree(HERE / "openfoam", tmp_path / "case")
    return Case(str(tmp_path / "case"), is_parallel=False), tmp_path / "case" / "system" / "controlDict"


def test_each_text_that_was_replaced_is_kept(tmp_path: Path) -> None:
    case, path = make_case(tmp_path)
    first = path.read_bytes()
    assert case.edit([("startFrom", "latestTime", "")])
    second = path.read_bytes()
    assert not case.edit([("startFrom", "latestTime", "")])
    assert case.edit([("stopAt", "noWriteNow", "")])
    kept = sorted(path.parent.glob("controlDict.before-lastgood*"))
    assert [one.read_bytes() for one in kept] == [first, second]


def test_an_edit_keeps_a_link_the_mode_and_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    case, path = make_case(tmp_path)
    real = tmp_path / "shared"
    real.write_bytes(b"// J\xfcrgen\r\n" + path.read_bytes())
    real.chmod(0o640)
    path.unlink()
    path.symlink_to(real)
    case.edit([("startFrom", "latestTime", "")])
    assert path.is_symlink() and real.stat().st_mode & 0o777 == 0o640
    assert (
        real.read_bytes().startswith(b"// J\xfcrgen\r\nFoamFile")
        and b"startFrom       latestTime;" in real.read_bytes()
    )


@pytest.mark.parametrize("name", ["constant", "1.8.attempt-2", "1_0", "nan", "inf", "0.orig", "1.8.bad"])
def test_a_name_that_is_no_number_is_no_time(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "-1.5e-05").mkdir()
    (tmp_path / "3").write_text("a file")
    assert times_in(str(tmp_path)) == {"-1.5e-05": -1.5e-05}


def test_a_message_is_taken_from_one_rank() -> None:
    words = "[1] \n[1] --> FOAM FATAL IO ERROR: \n[1] problem while reading header for object U\n[1] \n[1] file: /x/U at line 1.\n"
    assert complaint(words) == "FOAM FATAL IO ERROR: problem while reading header for object U"
