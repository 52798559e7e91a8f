"""Comments that silence findings."""

from collections.abc import Iterator

import msgspec
import pytest

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.engine import audit
from lastgood.audit.finding import Audited
from lastgood.audit.rule import Context, Hit, Rule
from lastgood.audit.rules import all_rules, rule_of
from lastgood.audit.source import Source


def in_header(script: BatchScript, context: Context) -> Iterator[Hit]:
    yield Hit(span=script.header.directives[0].span, message="found", remedy="none")


def at_srun(script: BatchScript, context: Context) -> Iterator[Hit]:
    for command in script.commands:
        if command.name == "srun":
            for word in (command.words[0], command.words[-1]):
                yield Hit(span=word.span, message="found", remedy="none")


RULES: dict[str, Rule] = {
    "LG004": rule_of("LG004"),
    "LG101": msgspec.structs.replace(rule_of("LG101"), check=in_header),
    "LG105": msgspec.structs.replace(rule_of("LG105"), check=at_srun),
}


def audited(text: str, *codes: str) -> Audited:
    rules = [RULES[code] for code in codes or ("LG004", "LG101")]
    return audit(Source("job.sh", text.encode()), rules, Context())


def codes(one: Audited) -> list[str]:
    return [finding.rule.code for finding in one.findings]


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\n# lastgood: ignore LG101 because the site does\n#SBATCH -t 9:00:00\nsrun a\n",
        "#!/bin/bash\n#SBATCH -t 9:00:00 # lastgood: ignore LG101 because the site does\nsrun a\n",
        "#!/bin/bash\n#SBATCH -t 9:00:00\nsrun a\n# lastgood: ignore-file LG101 because the site does\n",
        "#!/bin/bash\n#  LastGood:ignore lg101: because the site does\n#SBATCH -t 9:00:00\nsrun a\n",
        "#!/bin/bash\n# lastgood: ignore LG203,LG101 because the site does\n#SBATCH -t 9:00:00\nsrun a\n",
        "#!/bin/bash\n# lastgood: ignore LG101 because the site does\n# lastgood: ignore LG102 because x\n#SBATCH -t 9:00:00\nsrun a\n",
    ],
)
def test_a_comment_silences_with_its_reason(text: str) -> None:
    one = audited(text, "LG101")
    assert codes(one) == []
    (silenced,) = one.silenced
    assert (silenced.finding.rule.code, silenced.reason) == ("LG101", "the site does")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("# lastgood: ignore LG101\n", "gives no reason"),
        ("# lastgood: ignore LG101 because\n", "gives no reason"),
        ("# lastgood: ignore because I say so\n", "names no rule"),
        ("# lastgood: ignore LG101, LG099 because x\n", "no rule LG099"),
        ("# lastgood: ignore-file LG004 because x\n", ""),
    ],
)
def test_a_comment_that_says_too_little_is_found(text: str, mistake: str) -> None:
    one = audited("#!/bin/bash\n" + text + "#SBATCH -t 9:00:00\nsrun a\n")
    found = [finding.message for finding in one.findings if finding.rule.code == "LG004"]
    assert len(found) == 1 and mistake in found[0]


def test_a_comment_of_another_line_silences_nothing_and_is_found() -> None:
    one = audited("#!/bin/bash\n#SBATCH -t 9:00:00\n# lastgood: ignore LG101 because x\nsrun a\n")
    assert codes(one) == ["LG101", "LG004"]
    assert "LG101 finds nothing there" in one.findings[1].message


def test_nothing_is_said_of_a_rule_that_was_not_asked() -> None:
    one = audited("#!/bin/bash\n#SBATCH -t 9:00:00\nsrun a # lastgood: ignore LG104 because x\n", "LG004")
    assert codes(one) == []


def test_a_command_behind_backslashes_is_one_line() -> None:
    script = (
        "#!/bin/bash\n#SBATCH -t 9:00:00 --requeue\n{above}srun \\\n  --label \\\n  python a.py | tee log{behind}\n"
    )
    comment = "# lastgood: ignore LG105 because the log says it"
    assert codes(audited(script.format(above="", behind=""), "LG105")) == ["LG105", "LG105"]
    assert codes(audited(script.format(above=comment + "\n", behind=""), "LG105", "LG004")) == []
    assert codes(audited(script.format(above="", behind="  " + comment), "LG105", "LG004")) == []


def test_a_word_with_a_hash_in_it_is_no_comment() -> None:
    one = audited("#!/bin/bash\n#SBATCH -t 9:00:00\nsrun a#lastgood: ignore LG999 because x\n")
    assert codes(one) == ["LG101"]


def test_remarks_that_begin_with_our_name_are_left_alone() -> None:
    one = audit(
        Source("job.sh", b"#!/bin/bash\n#SBATCH -t 9:00:00 --requeue\n# lastgood: see the wiki\nsrun a\n"),
        [rule for rule in all_rules() if rule.code.startswith("LG0")],
        Context(),
    )
    assert codes(one) == []
