"""Every rule finds what its page calls bad, and nothing in what it calls good; so do the cases beside the tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.audit.engine import audit, context_for_example
from lastgood.audit.fixing import mend
from lastgood.audit.rule import FAMILIES, Rule, Severity
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source
from lastgood.core.units import parse_duration

CASES = Path(__file__).parent / "cases"
SUFFIXES = {"BatchScript": ".sh", "Manifest": ".yaml", "Program": ".py", "Policy": ".conf", "Comments": ".sh"}

rules = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)


def found(rule: Rule, text: str, name: str = "") -> set[str]:
    import msgspec

    from lastgood.audit.policy import Policy

    context = context_for_example(rule)
    first = " ".join(text.split("\n")[:2])
    if "# audit: write=" in first:
        write_s = parse_duration(first.partition("# audit: write=")[2].split()[0])
        context = msgspec.structs.replace(context, write_s=write_s)
    if name and (beside := Path(name).with_suffix(".policy")).exists():
        context = msgspec.structs.replace(context, policy=Policy([Source(beside.name, beside.read_bytes())]))
    source = Source(name or f"example{SUFFIXES[rule.reads.__name__]}", text.encode())
    return {finding.rule.code for finding in audit(source, all_rules(), context).findings}


@rules
def test_the_bad_example_is_found_and_the_good_one_is_not(rule: Rule) -> None:
    assert rule.code in found(rule, rule.bad)
    assert rule.code not in found(rule, rule.good)


@rules
def test_examples_are_read_to_their_end_and_the_good_one_loses_no_work_by_any_rule(rule: Rule) -> None:
    name, context = f"example{SUFFIXES[rule.reads.__name__]}", context_for_example(rule)
    assert audit(Source(name, rule.bad.encode()), all_rules(), context).problems == []
    good = audit(Source(name, rule.good.encode()), all_rules(), context)
    assert good.problems == []
    assert [finding.rule.code for finding in good.findings if finding.severity >= Severity.MAY_BE_LOST] == []


@rules
def test_a_comment_above_silences_what_the_bad_example_shows(rule: Rule) -> None:
    if rule.code == "LG004":
        return
    name, context = f"example{SUFFIXES[rule.reads.__name__]}", context_for_example(rule)
    lines = rule.bad.split("\n")
    first = audit(Source(name, rule.bad.encode()), [rule], context).findings[0]
    # Above the first line there is no place.
    word, at = ("ignore-file", len(lines)) if first.span.line == 1 else ("ignore", first.span.line - 1)
    while word == "ignore" and at and lines[at - 1].endswith("\\"):
        at -= 1
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())] if word == "ignore" else ""
    lines.insert(at, f"{indent}# lastgood: {word} {rule.code} because this is a test")
    silenced = audit(Source(name, "\n".join(lines).encode()), [rule], context).silenced
    assert [one.reason for one in silenced][:1] == ["this is a test"]


@rules
def test_what_can_be_mended_is_not_found_any_more_once_it_is(rule: Rule) -> None:
    source = Source(f"example{SUFFIXES[rule.reads.__name__]}", rule.bad.encode())
    found = audit(source, [rule], context_for_example(rule)).findings
    after, mended = mend(source, found)
    again = audit(after, [rule], context_for_example(rule))
    assert again.problems == []
    assert len(again.findings) == len(found) - len(mended)


@rules
def test_every_text_of_a_rule_is_there_and_short(rule: Rule) -> None:
    for text in (rule.what, rule.why, rule.safe_to_ignore, rule.source):
        assert text.strip() and "TODO" not in text
    assert rule.code.startswith("LG") and len(rule.code) == 5 and rule.code[2] in FAMILIES
    assert rule.name == rule.name.lower() and " " not in rule.name


@rules
def test_messages_say_what_happens_and_what_to_write(rule: Rule) -> None:
    source = Source(f"example{SUFFIXES[rule.reads.__name__]}", rule.bad.encode())
    for finding in audit(source, [rule], context_for_example(rule)).findings:
        assert not finding.message.endswith(".") and not finding.remedy.endswith(".")
        assert 20 < len(finding.message) < 300 and 5 < len(finding.remedy) < 300
        assert finding.span.line <= source.line_count


def test_no_two_rules_have_a_code_or_a_name_in_common() -> None:
    assert len({rule.code for rule in all_rules()}) == len({rule.name for rule in all_rules()}) == len(all_rules())


def case_files() -> Iterator[Path]:
    for path in sorted(CASES.glob("LG*/*")):
        if path.suffix != ".policy":
            yield path


@pytest.mark.parametrize("path", list(case_files()), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_cases(path: Path) -> None:
    rule = next(rule for rule in all_rules() if rule.code == path.parent.name)
    is_found = rule.code in found(rule, path.read_bytes().decode(), str(path))
    assert is_found == path.name.startswith("bad-")
    assert path.name.startswith(("bad-", "good-"))
