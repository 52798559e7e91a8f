"""Findings and rules as the types of lastgood.audit.formats.answers."""

from collections.abc import Sequence
from typing import Literal

from lastgood.audit.finding import Audited, Finding, Problem
from lastgood.audit.formats import answers
from lastgood.audit.formats.terminal import harmless
from lastgood.audit.rule import Rule, Severity
from lastgood.audit.source import Edit, Span

_WORDS: dict[Severity, Literal["lost", "may", "wasteful", "note"]] = {
    Severity.LOST: "lost",
    Severity.MAY_BE_LOST: "may",
    Severity.WASTEFUL: "wasteful",
    Severity.NOTE: "note",
}


def audit_answer(
    audited: Sequence[Audited], problems: Sequence[Problem], fixed: Sequence[Finding]
) -> answers.AuditAnswer:
    return answers.AuditAnswer(
        files=[answers.AuditedFile(harmless(path), one.kinds[0]) for one in audited for path in one.files],
        findings=[finding_of(finding) for one in audited for finding in one.findings],
        silenced=[finding_of(one.finding, one.reason) for each in audited for one in each.silenced],
        fixed=[finding_of(finding) for finding in fixed],
        problems=[problem_of(problem) for one in audited for problem in one.problems]
        + [problem_of(problem) for problem in problems],
    )


def finding_of(finding: Finding, silenced_because: str = "") -> answers.AuditFinding:
    return answers.AuditFinding(
        code=finding.rule.code,
        name=finding.rule.name,
        severity=_WORDS[finding.severity],
        path=harmless(finding.path),
        line=finding.span.line,
        column=finding.span.column,
        end_line=finding.span.end_line,
        end_column=finding.span.end_column,
        message=harmless(finding.message),
        remedy=harmless(finding.remedy),
        edits=[_edit(edit, span) for edit, span in zip(finding.edits, finding.edits_at, strict=True)],
        silenced_because=harmless(silenced_because),
    )


def _edit(edit: Edit, span: Span) -> answers.AuditEdit:
    return answers.AuditEdit(
        edit.begin, edit.end, encodable(edit.text), span.line, span.column, span.end_line, span.end_column
    )


def problem_of(problem: Problem) -> answers.AuditProblem:
    span = problem.span
    return answers.AuditProblem(
        path=harmless(problem.path),
        line=None if span is None else span.line,
        column=None if span is None else span.column,
        message=harmless(problem.message),
        is_partial=problem.is_partial,
    )


def explained(rule: Rule) -> answers.ExplainedRule:
    reads = {"BatchScript": "batch script", "Manifest": "Kubernetes manifest", "Program": "Python program"}
    return answers.ExplainedRule(
        code=rule.code,
        name=rule.name,
        family=rule.family,
        severity=_WORDS[rule.severity],
        reads=reads.get(rule.reads.__name__, "Slurm configuration" if rule.reads.__name__ == "Policy" else "any file"),
        what=rule.what,
        why=rule.why,
        bad=rule.bad,
        good=rule.good,
        safe_to_ignore=rule.safe_to_ignore,
        source=rule.source,
    )


def encodable(text: str) -> str:
    """Bytes that are no UTF-8 as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
