"""What an audit found, and where it could not look."""

import msgspec

from lastgood.audit.rule import Rule, Severity
from lastgood.audit.source import Edit, Span


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: Rule
    path: str
    span: Span
    severity: Severity
    message: str
    remedy: str
    edits: tuple[Edit, ...] = ()


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or a part of it, that was not audited."""

    path: str
    message: str
    span: Span | None = None


class Audited(msgspec.Struct, kw_only=True):
    """All that came of one path."""

    path: str
    findings: list[Finding]
    problems: list[Problem]
    suppressed: int = 0
    """Findings that a comment in the file silences."""
    kinds: tuple[str, ...] = ()
    """What it was read as, such as "batch script"; empty if it is nothing that we audit."""
