"""What a file is read as, and that nothing in it stops the audit."""

import pickle
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.engine import audit, audit_models, models_of
from lastgood.audit.policy import Policy
from lastgood.audit.recognise import Kind, kind_of
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.rules import all_rules, rule_of
from lastgood.audit.source import Source, Span


def always(script: BatchScript, context: Context) -> Iterator[Hit]:
    yield Hit(span=script.header.directives[0].span, message="found", remedy="none")


ALWAYS = msgspec.structs.replace(rule_of("LG101"), check=always)

JOB = b"#!/bin/bash\n#SBATCH --time=12:00:00\nsrun python train.py\n"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("job", JOB, Kind.BATCH),
        ("job.txt", b"#!/bin/sh -l\n\n#SBATCH -n 1\n", Kind.BATCH),
        ("job.sh", b"#!/bin/bash\n# SBATCH --time=1:00\n", Kind.BATCH),
        ("start.sh", b"#!/bin/bash\nmake\n", Kind.SHELL),
        ("start", b"#!/bin/bash\nmake\n", Kind.SHELL),
        ("train.py", b"import torch\n", Kind.PROGRAM),
        ("train", b"#!/usr/bin/env python3\n#SBATCH -n 1\nimport torch\n", Kind.PROGRAM),
        ("job.yaml", b"apiVersion: v1\nkind: Pod\n", Kind.MANIFEST),
        ("job", b"apiVersion: v1\nkind: Pod\n", Kind.MANIFEST),
        ("job", b'{"kind": "Pod", "apiVersion": "v1"}', Kind.MANIFEST),
        ("job.json", b'{\n    "apiVersion": "v1",\n    "kind": "Pod"\n}\n', Kind.MANIFEST),
        ("-", b"kind: ConfigMap\ndata:\n  slurm.conf: |\n    ClusterName=a\napiVersion: v1\n", Kind.MANIFEST),
        ("slurm.conf", b"# site\nClusterName=a\nSlurmctldHost=b\n", Kind.POLICY),
        (
            "config.txt",
            b"Configuration data as of 2024-01-01T00:00:00\nAccountingStorageBackupHost = (null)\n",
            Kind.POLICY,
        ),
        ("partitions", b"PartitionName=gpu\n   AllowGroups=ALL\n", Kind.POLICY),
        ("a.sh", b"#!/bin/bash\n\0\0\n", Kind.BINARY),
        ("a.sh", JOB.decode().encode("utf-16"), Kind.BINARY),
        ("notes.md", b"# Notes\n", Kind.OTHER),
        ("notes.md", b'# Notes\n\n    {"apiVersion": "v1"}\n', Kind.OTHER),
        ("empty", b"", Kind.OTHER),
    ],
)
def test_a_file_is_what_stands_in_it(name: str, data: bytes, kind: Kind) -> None:
    assert kind_of(Source(name, data)) is kind


def test_scripts_in_a_script_are_audited_and_a_script_that_only_writes_them_is_not() -> None:
    outer = b"#!/bin/bash\nsbatch <<EOF\n" + JOB + b"EOF\n"
    (model,) = models_of(Source("submit.sh", outer)).models
    assert isinstance(model, BatchScript) and model.header.value("time") == "12:00:00"
    audited = audit(Source("submit.sh", outer), [ALWAYS], Context())
    assert [finding.span.line for finding in audited.findings] == [4]


def test_a_script_for_another_shell_is_said_not_to_be_audited() -> None:
    audited = audit(Source("job.csh", b"#!/bin/tcsh\n#SBATCH -n 1\nforeach i (1 2)\nend\n"), all_rules(), Context())
    (problem,) = audited.problems
    assert "tcsh" in problem.message and not audited.kinds and not audited.findings


def test_what_is_no_bash_is_named_and_the_rest_is_audited() -> None:
    text = JOB + b"if [ $x ]; then\n  echo a\nfi\nfor in do done ((\n"
    audited = audit(Source("job.sh", text), [ALWAYS], Context())
    (problem,) = audited.problems
    assert problem.is_partial and "not understood as bash" in problem.message
    assert problem.span is not None and problem.span.line >= 7
    assert [finding.rule.code for finding in audited.findings] == ["LG101"]


def test_a_large_script_is_named_and_a_large_policy_is_read() -> None:
    audited = audit(Source("job.sh", JOB + b"#" * 1_000_000), all_rules(), Context())
    assert "of more than 1 MB" in audited.problems[0].message and not audited.kinds
    conf = b"ClusterName=a\nSlurmctldHost=b\n" + b"NodeName=n1 CPUs=64\n" * 60_000
    assert models_of(Source("slurm.conf", conf)).models


@pytest.mark.slow
def test_a_script_without_end_is_named_and_not_audited() -> None:
    audited = audit(Source("job.sh", JOB + b"echo a\n" * 10_000), all_rules(), Context())
    (problem,) = audited.problems
    assert "10001 commands" in problem.message and not problem.is_partial and not audited.kinds


def test_python_that_is_none_names_the_line() -> None:
    audited = audit(Source("train.py", b"import os\nprint 'x'\n"), all_rules(), Context())
    (problem,) = audited.problems
    assert problem.span is not None and problem.span.line == 2 and not problem.is_partial


def failing(script: BatchScript, context: Context) -> Iterator[Hit]:
    yield Hit(span=script.line(1), message="found before it failed", remedy="nothing")
    raise ZeroDivisionError("by zero")


def test_a_rule_that_fails_is_named_and_hides_nothing() -> None:
    broken = msgspec.structs.replace(rule_of("LG102"), check=failing)
    audited = audit(Source("job.sh", JOB), [broken, ALWAYS], Context())
    (problem,) = audited.problems
    assert "LG102" in problem.message and "ZeroDivisionError: by zero" in problem.message
    assert "test_audit_engine.py" in problem.message
    assert {finding.rule.code for finding in audited.findings} == {"LG102", "LG101"}


def test_findings_come_in_the_order_of_the_text_and_with_the_severity_of_the_hit() -> None:
    def last(script: BatchScript, context: Context) -> Iterator[Hit]:
        yield Hit(span=script.line(3), message="found", remedy="none", severity=Severity.LOST)
        yield Hit(span=script.line(1), message="found", remedy="none")

    rules = [msgspec.structs.replace(rule_of("LG102"), check=last), ALWAYS]
    findings = audit(Source("job.sh", JOB), rules, Context()).findings
    assert [(finding.span.line, finding.rule.code) for finding in findings] == [
        (1, "LG102"),
        (2, "LG101"),
        (3, "LG102"),
    ]
    assert [finding.severity for finding in findings] == [rules[0].severity, ALWAYS.severity, Severity.LOST]


def test_findings_of_a_policy_name_the_file_that_they_are_in() -> None:
    def check(policy: Policy, context: Context) -> Iterator[Hit]:
        setting = policy.setting("KillWait")
        assert setting is not None
        yield Hit(span=setting.span, path=setting.path, message="short", remedy="longer")

    first, second = Source("a", b"ClusterName=x\n"), Source("b", b"ClusterName=x\n\nKillWait=30\n")
    rule = msgspec.structs.replace(rule_of("LG901"), check=check)
    read = models_of(first)
    read.models = [Policy([first, second])]
    (finding,) = audit_models(first, read, [rule], Context()).findings
    assert (finding.path, finding.span.line, finding.excerpt.text) == ("b", 3, "KillWait=30")


def test_a_comment_silences_in_its_own_file_only() -> None:
    def check(policy: Policy, context: Context) -> Iterator[Hit]:
        for path in ("a", "b"):
            yield Hit(span=Span(2, 1, 2, 5), path=path, message="found", remedy="none")

    comment = b"# lastgood: ignore LG901 because the site is small\n"
    first, second = Source("a", b"ClusterName=x\nKillWait=30\n"), Source("b", comment + b"KillWait=30\n")
    rule = msgspec.structs.replace(rule_of("LG901"), check=check)
    read = models_of(first)
    read.models = [Policy([first, second])]
    audited = audit_models(first, read, [rule], Context())
    assert [finding.path for finding in audited.findings] == ["a"]
    assert [silenced.finding.path for silenced in audited.silenced] == ["b"]


def test_a_long_line_is_kept_around_the_place_only() -> None:
    def check(script: BatchScript, context: Context) -> Iterator[Hit]:
        yield Hit(span=Span(3, 50_001, 3, 50_007), message="here", remedy="nothing")

    line = b"#" + b"x" * 49_999 + b"LOOKAT" + b"y" * 50_000
    rule = msgspec.structs.replace(rule_of("LG101"), check=check)
    (finding,) = audit(Source("job.sh", b"#!/bin/bash\n#SBATCH -n 1\n" + line), [rule], Context()).findings
    assert len(finding.excerpt.text) < 1000 and finding.excerpt.is_cut
    begin = 50_001 - finding.excerpt.column
    assert finding.excerpt.text[begin : begin + 6] == "LOOKAT"


def test_what_a_rule_quotes_is_cut() -> None:
    def check(script: BatchScript, context: Context) -> Iterator[Hit]:
        yield Hit(span=script.line(1), message="x" * 100_000, remedy="y" * 100_000)

    rule = msgspec.structs.replace(rule_of("LG101"), check=check)
    (finding,) = audit(Source("job.sh", JOB), [rule], Context()).findings
    assert len(finding.message) == len(finding.remedy) == 500


def test_a_finding_goes_to_another_process_with_the_code_of_its_rule() -> None:
    (finding,) = audit(Source("job.sh", JOB), [ALWAYS], Context()).findings
    sent = pickle.dumps(finding)
    assert pickle.loads(sent).rule is rule_of("LG101")
    assert (pickle.loads(sent).span, pickle.loads(sent).excerpt) == (finding.span, finding.excerpt)
    assert rule_of("LG101").why.encode() not in sent


@given(st.binary(max_size=300), st.sampled_from(["job.sh", "job.yaml", "train.py", "slurm.conf", "x"]))
def test_no_content_stops_an_audit(data: bytes, name: str) -> None:
    for content in (data, b"#!/bin/bash\n#SBATCH -t 9:00\n" + data, b"apiVersion: v1\nkind: Job\n" + data):
        audited = audit(Source(name, content), all_rules(), Context())
        assert not [problem for problem in audited.problems if "defect" in problem.message]


_PIECES = st.sampled_from(
    ["srun ", "python ", "train.py ", "|| true", "&& ", "| tee log", "\n", "trap 'x' TERM", "wait ", "$!", "$(date)", "&",
     "#SBATCH --signal=B:USR1@60\n", "#SBATCH --array=1-4%1\n", "<<EOF\n", "EOF\n", "if true; then ", "fi\n", "{ ", "}\n",
     "f() ", "'", '"', "exec ", "/tmp/x ", "while true; do ", "done\n", "scontrol requeue $SLURM_JOB_ID\n", "\\\n", "é\t", "--max-restarts=3 ",
     "torchrun ", "--output=x ", "2>&1 "]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=25))
def test_no_script_stops_a_rule(pieces: list[str]) -> None:
    source = Source("job.sh", ("#!/bin/bash\n#SBATCH -t 9:00:00\n" + "".join(pieces)).encode())
    audited = audit(source, all_rules(), Context())
    assert not [problem for problem in audited.problems if "defect" in problem.message]
    for finding in audited.findings:
        assert 1 <= finding.span.line <= source.line_count
        assert finding.span <= Span(
            finding.span.end_line, finding.span.end_column, finding.span.end_line, finding.span.end_column
        )


def test_rules_without_a_model_of_their_kind_are_not_asked() -> None:
    asked: list[Rule] = [rule for rule in all_rules() if rule.reads is Policy]
    assert asked and audit(Source("job.sh", JOB), asked, Context()).findings == []
