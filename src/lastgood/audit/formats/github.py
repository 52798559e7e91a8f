"""Findings as GitHub's workflow commands, which show them beside the lines of a change."""

from collections.abc import Iterator, Sequence

from lastgood.audit.finding import Audited, Finding, Problem
from lastgood.audit.formats.terminal import harmless
from lastgood.audit.formats.text import summary
from lastgood.audit.rule import Severity
from lastgood.audit.source import WHOLE_FILE, Span

_LEVELS = {
    Severity.LOST: "error",
    Severity.MAY_BE_LOST: "warning",
    Severity.WASTEFUL: "warning",
    Severity.NOTE: "notice",
}


def github_of(audited: Sequence[Audited], problems: Sequence[Problem]) -> Iterator[str]:
    """Line by line; a summary at the end."""
    for one in audited:
        for finding in one.findings:
            yield _finding(finding)
        yield from (_problem(problem) for problem in one.problems if not problem.is_nothing)
    for problem in problems:
        yield _problem(problem)
    yield summary(audited, problems)


def _finding(finding: Finding) -> str:
    title = f"{finding.severity} [{finding.rule.code}]"
    text = f"{harmless(finding.message)}\nwhat to do: {harmless(finding.remedy)}"
    return _command(_LEVELS[finding.severity], finding.path, finding.span, title, text)


def _problem(problem: Problem) -> str:
    level = "notice" if problem.is_partial else "error"
    return _command(level, problem.path, problem.span, "not audited", harmless(problem.message))


def _command(level: str, path: str, span: Span | None, title: str, text: str) -> str:
    properties = {"file": harmless(path)}
    if span is not None and span != WHOLE_FILE:
        properties |= {"line": str(span.line), "endLine": str(span.end_line)}
        if span.line == span.end_line:
            properties |= {"col": str(span.column), "endColumn": str(max(span.end_column - 1, span.column))}
    properties["title"] = title
    shown = ",".join(f"{name}={_in_property(value)}" for name, value in properties.items())
    return f"::{level} {shown}::{_in_text(text)}"


def _in_text(text: str) -> str:
    """
    >>> _in_text("100%\\nof it")
    '100%25%0Aof it'
    """
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _in_property(text: str) -> str:
    return _in_text(text).replace(":", "%3A").replace(",", "%2C")
