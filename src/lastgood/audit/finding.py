"""What an audit found, and where it could not look."""

import msgspec

from lastgood.audit.rule import Rule, Severity
from lastgood.audit.source import Edit, Span


class Excerpt(msgspec.Struct, frozen=True):
    """The line that a finding begins in, or of a very long one the part around the place."""

    text: str
    column: int = 1
    """The column of its first character."""
    is_cut: bool = False
    """The line goes on behind it."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: Rule
    path: str
    span: Span
    severity: Severity
    message: str
    remedy: str
    edits: tuple[Edit, ...] = ()
    edits_at: tuple[Span, ...] = ()
    """The place of each edit."""
    excerpt: Excerpt = Excerpt("")


class Silenced(msgspec.Struct, frozen=True):
    """A finding that a comment in the file silences, and the comment's reason."""

    finding: Finding
    reason: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or a part of it, that was not audited."""

    path: str
    message: str
    span: Span | None = None
    is_partial: bool = False
    """The rest of the file was audited, or nothing in it is for us: no reason for an exit code of its own."""
    is_nothing: bool = False
    """There is nothing in it that we audit, though it was named; of many such, only their number is said."""
    is_missing: bool = False
    """There is no such file, or nothing in it that anybody would name it for."""


class Audited(msgspec.Struct, kw_only=True):
    """All that came of one path."""

    path: str
    findings: list[Finding]
    problems: list[Problem]
    silenced: list[Silenced] = []
    kinds: tuple[str, ...] = ()
    """What it was read as, such as "batch script"; empty if it is nothing that we audit."""
    files: tuple[str, ...] = ()
    """Paths of all that it was read from: for settings of a cluster these can be several."""
    programs: tuple[str, ...] = ()
    """Paths of the Python programs that it starts, as far as they were found."""
