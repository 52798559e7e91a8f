"""What may stand in a description: a mistake is named with its file, its line, its key and what is allowed."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.apps import description_tables
from lastgood.apps.described_values import Values
from lastgood.apps.description import parse_description, words_in
from lastgood.apps.description_tables import Source
from lastgood.apps.known import DESCRIPTIONS, description_path, names
from lastgood.core.errors import UsageError

LEAST = """\
format = 1
name = "solver"

[checkpoints]
glob = ["out/*.chk"]

[[finished]]
exists = "result.txt"
"""


def mistake(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_description(text, "solver.toml")
    return caught.value.what


def test_the_least_description_has_careful_defaults() -> None:
    least = parse_description(LEAST, "solver.toml")
    assert least.stop.signal == "TERM"
    assert least.check.formats and least.check.compare and least.check.least_bytes == 1


@pytest.mark.parametrize("path", sorted(DESCRIPTIONS.glob("*.toml")), ids=lambda path: path.stem)
def test_those_that_come_with_us_can_be_read_and_say_what_they_are(path) -> None:
    assert parse_description(path.read_text(), str(path)).summary


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            LEAST + "\n[stop]\nsignl = 'TERM'\n",
            "solver.toml:11: stop.signl is no key of a description; allowed here: signal,",
        ),
        (LEAST.replace("glob", "globs"), "solver.toml:5: checkpoints.globs is no key"),
        (LEAST.replace('["out/*.chk"]', '"out/*.chk"'), "solver.toml:5: checkpoints.glob: expected `array`, got `str`"),
        (LEAST.replace('["out/*.chk"]', "[]"), "solver.toml:5: checkpoints.glob: give a pattern at least"),
        (LEAST.replace('name = "solver"', ""), "solver.toml: name is missing; allowed here: format, name"),
        (LEAST.replace("format = 1", "format = 2"), "solver.toml:1: format = 2: this version reads 1 only"),
        (LEAST + "x = [\n", "solver.toml: it is not TOML"),
        (LEAST + "\n[stop]\nsignal = 'KILL'\n", "solver.toml:11: stop.signal: 'KILL' is not one of TERM, INT"),
        (LEAST + "\n[save]\nsignal = 'KILL'\n", "solver.toml:11: save.signal: 'KILL' is not one of TERM, INT"),
        (LEAST + "\n[save]\nwait = true\n", "solver.toml:10: save: give one of signal and file"),
        (LEAST + "\n[progress]\noutput = 'step'\n", "solver.toml:11: progress.output: needs a group"),
        (LEAST + "\n[progress]\noutput = 'step (?:\\d+)'\n", "solver.toml:11: progress.output: needs a group"),
        (LEAST + "\n[progress]\noutput = '\\(step'\n", "solver.toml:11: progress.output: needs a group"),
        (LEAST + "\n[progress]\noutput = '(step'\n", "solver.toml:11: progress.output: '(step' is no regular"),
        (
            LEAST + "\n[stop]\nsignal = 'TERM'\nfile = 'STOP'\n",
            "solver.toml:10: stop: give one of signal, file and wait",
        ),
        (LEAST + "\n[[log]]\npattern = '('\noutcome = 'killed'\n", "solver.toml:11: log.pattern: '(' is no regular"),
        (LEAST + "\n[[log]]\npattern = 'x'\noutcome = 'finished'\n", "log.outcome: 'finished' is not one of preempted"),
        (
            LEAST + "\n[start]\nresume = ['-r', '{chekpoint}']\n",
            "start.resume: {chekpoint} is not known here; known: checkpoint",
        ),
        (LEAST + "\n[start]\nresume = ['{step!r}']\n", "start.resume: '{step!r}': only a name stands in braces"),
        (LEAST + "\n[start]\nresume = ['{']\n", "solver.toml:11: start.resume: '{': "),
        (LEAST + "\n[values.a]\nfile = 'x'\n", "solver.toml:10: values.a: a file needs either a pattern or a json key"),
        (LEAST + "\n[values.a]\nfile = 'x'\ntext = 'y'\n", "values.a: give one of option, file and text"),
        (LEAST + "\n[values.a]\ntext = '{a}'\n", "solver.toml:10: values.a: {a} is not above it"),
        (LEAST + "\n[values.step]\ntext = 'y'\n", "values.step: not a name for a value"),
        (LEAST + "\n[values.a]\ntext = 'y'\nwrong = 1\n", "solver.toml:12: values.a.wrong is no key"),
        (LEAST.replace('exists = "result.txt"', ""), "finished: a test needs step, exists, file or output"),
        (LEAST.replace('exists = "result.txt"', 'step = "total"'), "finished.step: needs a [checkpoints.total]"),
        (LEAST.replace("[[finished]]", "[[Finished]]"), "solver.toml:7: Finished is no key of a description"),
        (
            LEAST.replace("[checkpoints]", "[checkpoints]\norder = 'age'"),
            "solver.toml:5: checkpoints.order: invalid enum value 'age'",
        ),
        (LEAST.replace("[checkpoints]", "[checkpoints]\norder = 'step'"), 'order = "step" needs a [checkpoints.step]'),
    ],
)
def test_a_mistake_is_named_with_its_place(changed: str, words: str) -> None:
    assert words in mistake(changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (LEAST + "\n[stop]\nfile = '{checkpoint}.stop'\n", "solver.toml:11: stop.file: {checkpoint} is not known here"),
        (LEAST + "\n[save]\nfile = 'save_{step}'\n", "save.file: {step} is not known here"),
        (LEAST + "\n[[refuse]]\nfile = '{total}'\npattern = 'x'\nreason = 'y'\n", "refuse.file: {total} is not"),
        (LEAST.replace("out/*", "out/{step}*"), "solver.toml:5: checkpoints.glob: {step} is not known here"),
        (LEAST.replace("result", "{interval_s}"), "finished.exists: {interval_s} is not known here; known: checkpoint"),
        (LEAST + "\n[check]\ncommand = ['x', '{interval_s}']\n", "check.command: {interval_s} is not known here"),
        (LEAST + "\n[start]\nfresh = ['{remaining}']\n", "start.fresh: {remaining} is not known here; known: total, "),
        (
            LEAST + "\n[checkpoints.total]\nfile = '{step}'\npattern = 'x'\n",
            "checkpoints.total.file: {step} is not known here; known: checkpoint",
        ),
        (
            LEAST + "\n[stop]\nfile = '{b}'\n[values.a]\ntext = '{step}'\n[values.b]\ntext = 'x{a}'\n",
            "stop.file: {step} is not known here; known: a, b",
        ),
    ],
)
def test_a_word_is_refused_where_nothing_can_ever_give_it(changed: str, words: str) -> None:
    assert words in mistake(changed)


def test_a_description_that_is_not_there_is_named(tmp_path) -> None:
    from lastgood.apps.described import adapter_from

    with pytest.raises(UsageError, match=r"cannot read the description .*no\.toml: No such file"):
        adapter_from(str(tmp_path / "no.toml"), ["true"])


def test_a_name_that_nobody_knows_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(UsageError) as caught:
        description_path("gromax")
    assert all(name in caught.value.remedy for name in names())


@given(st.text(st.characters(exclude_characters="{}", codec="utf-8")))
def test_text_without_braces_is_taken_as_it_is(text: str) -> None:
    assert words_in(text) == []
    assert Values({}, [], "solver").fill(text) == text


@given(st.text(), st.booleans())
def test_a_value_in_a_pattern_matches_itself_only(text: str, is_joined: bool) -> None:
    command = [f"--out={text}"] if is_joined else ["--out", text]
    values = Values({"out": Source(option=["--out"])}, command, "solver")
    filled = values.fill("{out}/*.chk", is_glob=True)
    assert values.fill("{out}/*.chk") == f"{text}/*.chk"
    assert not any(
        character in filled.replace("[[]", "").replace("[?]", "").replace("[*]", "")[: -len("/*.chk")]
        for character in "*?["
    )


def test_of_an_option_that_is_given_twice_the_last_one_counts() -> None:
    assert Values({"out": Source(option=["-o", "--out"])}, ["-o", "a", "--out=b"], "solver").fill("{out}") == "b"


def test_a_value_that_is_nowhere_is_named_with_where_it_should_be(tmp_path) -> None:
    (tmp_path / "input").write_text("a = 1\n")
    sources = {
        "out": Source(option=["--out"]),
        "b": Source(file=str(tmp_path / "input"), pattern=r"b = (\d)"),
        "c": Source(file=str(tmp_path / "input"), pattern=r"c = (\d)", default="7"),
        "d": Source(file=str(tmp_path / "absent"), json="x.y", default="{c}"),
    }
    values = Values(sources, ["true"], "solver")
    with pytest.raises(UsageError, match="the command has no --out"):
        values.fill("{out}")
    with pytest.raises(UsageError, match="input has no"):
        values.fill("{b}")
    assert values.fill("{c}{d}") == "77"


def test_a_member_of_json_is_found_behind_dots(tmp_path) -> None:
    (tmp_path / "state.json").write_text('{"trainer": {"step": 12}}')
    values = Values({}, [], "solver")
    source = Source(file=str(tmp_path / "state.json"), json="trainer.step")
    assert values.number_of(source) == 12
    (tmp_path / "state.json").write_text('{"trainer": {"st')
    assert values.number_of(source) is None


def test_every_key_is_explained_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "describe-an-application.md").read_text()
    tables = [
        kind
        for kind in vars(description_tables).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ]
    keys = {key for kind in tables for key in kind.__struct_fields__}
    headings = {"checkpoints", "check", "start", "stop", "save", "progress", "finished", "log", "refuse", "values"}
    missing = [key for key in sorted(keys - headings) if f"`{key}`" not in page and f"`{key} = " not in page]
    assert not missing
    assert all(f"[{heading}" in page for heading in headings)
