"""How findings are shown: places, carets, widths, and nothing that a terminal obeys."""

import re
import unicodedata
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.finding import Audited, Excerpt, Finding, Problem, Silenced
from lastgood.audit.formats.github import github_of
from lastgood.audit.formats.json_answer import audit_answer
from lastgood.audit.formats.sarif import sarif_of, uri_of
from lastgood.audit.formats.terminal import Style, pointed_at
from lastgood.audit.formats.text import summary, text_of
from lastgood.audit.rule import Severity
from lastgood.audit.rules import all_rules, rule_of
from lastgood.audit.source import WHOLE_FILE, Edit, Span

PLAIN = Style(False)


def finding(text: str = "srun python a.py", begin: int = 1, end: int = 5, **changes: Any) -> Finding:
    made = Finding(
        rule=rule_of("LG101"),
        path="job.sh",
        span=Span(7, begin, 7, end),
        severity=Severity.MAY_BE_LOST,
        message="something is there",
        remedy="write `x`",
        excerpt=Excerpt(text),
    )
    return msgspec.structs.replace(made, **changes)


def audited(*findings: Finding, **rest: Any) -> Audited:
    return Audited(
        path="job.sh", findings=list(findings), problems=[], kinds=("batch script",), files=("job.sh",), **rest
    )


def marked(text: str, begin: int, end: int, width: int = 70, column: int = 1, is_cut: bool = False) -> tuple[str, str]:
    return pointed_at(Excerpt(text, column, is_cut), Span(1, begin, 1, end), width)


def test_a_finding_is_shown_with_its_line() -> None:
    assert list(text_of([audited(finding())], [], PLAIN)) == [
        "job.sh:7:1: work may be lost [LG101]",
        "  something is there",
        "     7 | srun python a.py",
        "       | ^~~~",
        "  what to do: write `x`",
        "  more: lastgood explain LG101",
        "",
        "1 finding in 1 of 1 file (work may be lost: 1)",
    ]


def test_the_caret_stands_below_its_text() -> None:
    assert marked("srun python a.py", 6, 12) == ("srun python a.py", "     ^~~~~~")
    assert marked("\tsrun a", 2, 6) == ("    srun a", "    ^~~~")
    assert marked("# 训练 srun", 6, 10) == ("# 训练 srun", "       ^~~~")
    assert marked("# e\u0301a srun", 7, 11) == ("# e\u0301a srun", "     ^~~~")
    assert marked("srun", 5, 5) == ("srun", "    ^")
    assert marked("", 1, 1) == ("", "^")


def test_a_long_line_is_cut_around_the_caret() -> None:
    line, caret = marked("a" * 200 + "HERE" + "b" * 200, 201, 205, width=40)
    assert len(line) <= 40 and line.startswith("...a") and line.endswith("b...")
    assert line[caret.index("^") : len(caret)] == "HERE"
    line, caret = marked("HERE" + "b" * 200, 1, 5, width=40)
    assert line.startswith("HEREb") and line.endswith("...") and caret == "^~~~"
    line, caret = marked("a" * 200 + "HERE", 201, 205, width=40)
    assert line.endswith("aHERE") and line[caret.index("^") :] == "HERE"
    line, caret = marked("xxHERExx", 1003, 1007, width=40, column=1001, is_cut=True)
    assert (line, line[caret.index("^") : len(caret)]) == ("...xxHERExx...", "HERE")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=120), st.data())
def test_a_shown_line_fits_and_a_terminal_obeys_nothing_in_it(text: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(1, len(text) + 1))
    end = data.draw(st.integers(begin, len(text) + 1))
    width = data.draw(st.integers(30, 80))
    line, caret = marked(text, begin, end, width)
    columns = sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line
    )
    # A character that takes two columns may stand across the edge.
    assert columns <= width + 2
    assert line.isprintable()
    assert re.fullmatch(r" *\^~*", caret) and caret.index("^") < width


def test_control_characters_do_not_reach_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e\r\udcff"
    one = finding(f"srun {evil}", 1, 5, path=f"a{evil}b.sh", message=f"it is {evil}", remedy=f"not {evil}")
    problem = Problem(path=f"{evil}.yaml", message=f"broken {evil}", span=Span(1, 1, 1, 1))
    lines = [*text_of([audited(one)], [problem], PLAIN), *github_of([audited(one)], [problem])]
    for line in lines:
        assert line.isprintable(), ascii(line)
    assert "\\x1b]0;owned\\x07\\x9b31m\\u202e\\r\\xff" in "".join(lines)


def test_lines_are_not_wider_than_the_terminal() -> None:
    words = "a message with many words in it and `--an-option=value` in backquotes " * 4
    for line in text_of([audited(finding(message=words.strip(), remedy=words.strip()))], [], PLAIN, width=60):
        assert len(line) <= 60


def test_a_rule_is_pointed_at_once() -> None:
    lines = list(text_of([audited(finding(), finding())], [], PLAIN))
    assert lines.count("  more: lastgood explain LG101") == 1


def test_what_is_said_again_and_does_not_count_is_cut_short() -> None:
    note = finding(severity=Severity.NOTE, message="word " * 30 + "end")
    lines = list(text_of([audited(*[note] * 4, finding())], [], PLAIN, least_in_full=Severity.MAY_BE_LOST))
    assert sum("what to do" in line for line in lines) == 3
    third = [i for i, line in enumerate(lines) if line == "job.sh:7:1: note [LG101]"][2]
    assert lines[third - 1] == ""
    assert lines[third + 1].endswith("word...") and len(lines[third + 1]) <= 80
    assert lines[third + 2] == "job.sh:7:1: note [LG101]"
    assert lines[third + 4 : third + 6] == ["", "job.sh:7:1: work may be lost [LG101]"]
    assert lines[-1] == "what is said again is cut short; --fail-on note shows all in full"
    full = list(text_of([audited(*[note] * 4, finding())], [], PLAIN))
    assert sum("what to do" in line for line in full) == 5 and "cut short" not in full[-1]


def test_of_many_findings_the_rules_that_found_most_are_named() -> None:
    other = finding(rule=rule_of("LG001"))
    lines = list(text_of([audited(*[finding()] * 18, *[other] * 2)], [], PLAIN))
    assert lines[-1].startswith("20 findings")
    lines = list(text_of([audited(*[finding()] * 18, *[other] * 3)], [], PLAIN))
    assert lines[-1] == "most often: LG101 requeue-by-default (18), LG001 directive-too-late (3)"


def test_colours_are_there_only_where_they_are_wanted() -> None:
    coloured = "\n".join(text_of([audited(finding())], [], Style(True)))
    assert "\x1b[33;1mwork may be lost\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == "\n".join(text_of([audited(finding())], [], PLAIN))


def test_what_has_no_place_is_shown_without_one() -> None:
    one = audited(finding(span=WHOLE_FILE))
    assert list(text_of([one], [], PLAIN))[:3] == [
        "job.sh: work may be lost [LG101]",
        "  something is there",
        "  what to do: write `x`",
    ]
    assert next(github_of([one], [])).startswith("::warning file=job.sh,title=")
    (result,) = sarif_of([one], [], all_rules(), "1")["runs"][0]["results"]
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_many_files_that_are_nothing_for_us_are_counted_only() -> None:
    def named(count: int) -> list[Audited]:
        nothing = Problem(path="x", message="no job", is_partial=True, is_nothing=True)
        return [Audited(path="x", findings=[], problems=[nothing]) for _ in range(count)]

    assert list(text_of(named(3), [], PLAIN)) == ["x: note: no job"] * 3 + ["nothing was audited"]
    assert list(text_of(named(4), [], PLAIN)) == ["nothing was audited; 4 files hold nothing to audit"]


def test_the_summary_counts_what_there_is() -> None:
    fixable = finding(edits=(Edit(0, 0, "x"),), edits_at=(Span(1, 1, 1, 1),), severity=Severity.NOTE)
    one = audited(finding(), fixable, silenced=[Silenced(finding(), "x")])
    other = Audited(path="b", findings=[], problems=[Problem(path="b", message="gone")])
    aside = Problem(path="c", message="no job", is_partial=True)
    clean = msgspec.structs.replace(audited(), files=("a.sh",))
    assert summary([one, clean, other], [aside]) == (
        "2 findings in 1 of 2 files (work may be lost: 1, note: 1); 1 can be fixed with --fix; 1 silenced by comments; "
        "1 could not be audited"
    )
    assert summary([audited(), clean], []) == "no findings in 2 files"
    assert summary([], []) == "nothing was audited"


@pytest.mark.parametrize("severity", list(Severity))
def test_github_gets_a_command_for_each_finding(severity: Severity) -> None:
    one = finding(severity=severity, path="a,b:c.sh", message="100% of\tit")
    line, last = list(github_of([audited(one)], []))
    level = {4: "error", 3: "warning", 2: "warning", 1: "notice"}[severity]
    assert line == (
        f"::{level} file=a%2Cb%3Ac.sh,line=7,endLine=7,col=1,endColumn=4,title={severity} [LG101]"
        "::100%25 of\\tit%0Awhat to do: write `x`"
    )
    assert last.startswith("1 finding")


def test_json_holds_all_and_can_be_decoded() -> None:
    fixable = finding(edits=(Edit(3, 5, "x\udcff\n"),), edits_at=(Span(1, 4, 1, 6),), path="\udcfe")
    problem = Problem(path="y", message="broken", span=Span(2, 3, 2, 3))
    answer = audit_answer([audited(fixable, silenced=[Silenced(finding(), "so it is")])], [problem], [])
    decoded = msgspec.json.decode(msgspec.json.encode(answer))
    assert decoded["files"] == [{"path": "job.sh", "kind": "batch script"}]
    assert decoded["findings"][0]["severity"] == "may"
    assert decoded["findings"][0]["edits"][0]["text"] == "x\\udcff\n"
    assert decoded["silenced"][0]["silenced_because"] == "so it is"
    assert (decoded["problems"][0]["line"], decoded["problems"][0]["column"]) == (2, 3)


def test_sarif_is_what_the_standard_asks_for() -> None:
    fixable = finding(edits=(Edit(3, 5, "x"),), edits_at=(Span(1, 4, 1, 6),), path="a b.sh")
    partial = Problem(path="/x/y", message="a part", span=Span(2, 3, 2, 3), is_partial=True)
    one = audited(fixable, silenced=[Silenced(finding(), "so it is")])
    log = msgspec.json.decode(msgspec.json.encode(sarif_of([one], [partial], all_rules(), "1.2")))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    assert set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    assert set(run) == {"tool", "columnKind", "invocations", "results"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("lastgood", "1.2")
    assert len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"]) == len(all_rules())
    for rule in driver["rules"]:
        assert set(rule) <= {
            *(
                "id",
                "name",
                "shortDescription",
                "fullDescription",
                "help",
                "helpUri",
                "defaultConfiguration",
                "properties",
            ),
        }
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
        assert rule["help"]["text"] and rule["help"]["markdown"].startswith(f"# {rule['id']}")
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"]
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert 1 <= region["startLine"] <= region["endLine"] and region["startColumn"] >= 1
    found, silenced = run["results"]
    (fix,) = found["fixes"]
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "a%20b.sh"
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 1, "startColumn": 4, "endLine": 1, "endColumn": 6},
            "insertedContent": {"text": "x"},
        }
    ]
    assert silenced["suppressions"] == [{"kind": "inSource", "justification": "so it is"}]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "note"
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///x/y"


def test_a_file_that_was_not_audited_is_no_success_in_sarif() -> None:
    log = sarif_of([], [Problem(path="x", message="gone")], [], "1")
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_uri_names_the_path(path: str) -> None:
    uri = uri_of(path)
    assert uri.isascii() and unquote(uri.removeprefix("file://") if path.startswith("/") else uri) == path
    assert path.startswith("/") or ":" not in uri.split("/")[0]
