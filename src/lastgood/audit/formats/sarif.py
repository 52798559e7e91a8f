"""Findings as SARIF 2.1.0, which code hosts and editors read."""

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lastgood.audit.finding import Audited, Finding, Problem
from lastgood.audit.formats.json_answer import encodable
from lastgood.audit.formats.page import markdown
from lastgood.audit.formats.terminal import harmless
from lastgood.audit.rule import Rule, Severity
from lastgood.audit.source import WHOLE_FILE, Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS = {Severity.LOST: "error", Severity.MAY_BE_LOST: "warning", Severity.WASTEFUL: "warning", Severity.NOTE: "note"}


def sarif_of(
    audited: Sequence[Audited], problems: Sequence[Problem], rules: Sequence[Rule], version: str
) -> dict[str, Any]:
    """The whole log, with a description of every rule that was asked."""
    places = {rule.code: i for i, rule in enumerate(rules)}
    results = [_result(finding, places) for one in audited for finding in one.findings]
    results += [_result(one.finding, places, one.reason) for each in audited for one in each.silenced]
    notifications = [_notification(problem) for one in audited for problem in one.problems]
    notifications += [_notification(problem) for problem in problems]
    is_whole = all(notification["level"] != "error" for notification in notifications)
    run = {
        "tool": {"driver": {"name": "lastgood", "version": version, "rules": [_rule(rule) for rule in rules]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": is_whole, "toolExecutionNotifications": notifications}],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.what},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\nSafe to ignore: {rule.safe_to_ignore}", "markdown": markdown(rule, "")},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.family]},
    }


def _result(finding: Finding, places: dict[str, int], reason: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule.code,
        "ruleIndex": places[finding.rule.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{harmless(finding.message)}. What to do: {harmless(finding.remedy)}"},
        "locations": [_location(finding.path, finding.span)],
        "properties": {"severity": str(finding.severity)},
    }
    if finding.edits:
        replacements = [
            {"deletedRegion": _region(span), "insertedContent": {"text": encodable(edit.text)}}
            for edit, span in zip(finding.edits, finding.edits_at, strict=True)
        ]
        changes = [{"artifactLocation": {"uri": uri_of(finding.path)}, "replacements": replacements}]
        result["fixes"] = [{"description": {"text": harmless(finding.remedy)}, "artifactChanges": changes}]
    if reason:
        result["suppressions"] = [{"kind": "inSource", "justification": harmless(reason)}]
    return result


def _notification(problem: Problem) -> dict[str, Any]:
    return {
        "level": "note" if problem.is_partial else "error",
        "message": {"text": harmless(problem.message)},
        "locations": [_location(problem.path, problem.span)],
    }


def _location(path: str, span: Span | None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri_of(path)}}
    if span is not None and span != WHOLE_FILE:
        physical["region"] = _region(span)
    return {"physicalLocation": physical}


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def uri_of(path: str) -> str:
    """A relative reference for a relative path, `file:` for an absolute one.

    >>> uri_of("jobs/a b.sh"), uri_of("/x/y.sh")
    ('jobs/a%20b.sh', 'file:///x/y.sh')
    """
    quoted = quote(os.fsencode(path))
    if path.startswith("/"):
        return f"file://{quoted}"
    # A colon in the first part would be read as the end of a scheme; quote has made it %3A.
    return quoted
