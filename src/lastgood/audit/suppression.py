"""Comments that silence findings, each with its reason. Pure.

    # lastgood: ignore LG104 because logs go to syslog
    # lastgood: ignore-file LG301, LG302 because the site's wrapper appends

A comment of its own line stands for the next line, one behind other text for that line; a command that goes on behind
a backslash counts as one line.
"""

import re
from collections.abc import Sequence

import msgspec

from lastgood.audit.finding import Audited, Finding, Silenced
from lastgood.audit.source import Source, Span

_COMMENT = re.compile(rb"(?<![^\s])#[ \t]*lastgood:[ \t]*(?P<rest>[^\r\n]*)", re.IGNORECASE)
_ORDER = re.compile(
    r"(?P<word>[\w-]+)(?:[\s:]+(?P<codes>(?:[A-Za-z]+\d+[\s,:]*)+))?(?:\s*\bbecause\b(?P<reason>.*))?(?P<left>.*)\Z",
    re.IGNORECASE,
)
_CODE = re.compile(r"LG\d{3}\Z")
_WORDS = {"ignore": False, "ignore-file": True}


class Comment(msgspec.Struct):
    """One such comment."""

    span: Span
    codes: tuple[str, ...]
    reason: str
    lines: range | None
    """Those that it stands for; None: all."""
    mistake: str = ""
    """Why it silences nothing, as far as its own text tells."""
    silenced: frozenset[str] = frozenset()
    """Codes of findings that it has silenced."""

    def stands_for(self, finding: Finding) -> bool:
        return (
            not self.mistake
            and finding.rule.code in self.codes
            and (self.lines is None or finding.span.line in self.lines)
        )


class Comments:
    """The comments of a file as a rule sees them, after all other rules were asked."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.comments = list(_read(source)) if b"lastgood:" in source.data.lower() else []
        self.asked: frozenset[str] = frozenset()
        """Codes of the rules that were asked: of others, nothing is known."""

    @property
    def path(self) -> str:
        return self.source.path


def silence(audited: Audited, comments: Comments, asked: Sequence[str]) -> None:
    """Move the findings that a comment stands for to the silenced ones."""
    comments.asked = frozenset(asked)
    if not comments.comments:
        return
    left = []
    for finding in audited.findings:
        is_here = finding.path == comments.path
        by = [comment for comment in comments.comments if is_here and comment.stands_for(finding)]
        for comment in by:
            comment.silenced |= {finding.rule.code}
        if by:
            audited.silenced.append(Silenced(finding, by[0].reason))
        else:
            left.append(finding)
    audited.findings[:] = left


def _read(source: Source) -> "list[Comment]":
    comments = []
    for match in _COMMENT.finditer(source.data):
        span = source.span(match.start(), match.end())
        text = match["rest"].decode("utf-8", "surrogateescape").strip()
        comment = _understood(text, span)
        if comment is None:
            continue
        if comment.lines is not None:
            comment.lines = _lines_of(source, span.line, is_alone=not source.line(span.line)[: span.column - 1].strip())
        comments.append(comment)
    return comments


def _understood(text: str, span: Span) -> Comment | None:
    """None if it is no order to us: a remark that begins with our name."""
    match = _ORDER.match(text)
    if match is None or match["word"].lower() not in _WORDS:
        return None
    codes = tuple(code.upper() for code in re.findall(r"\w+", match["codes"] or ""))
    reason = (match["reason"] or "").strip(" \t.:")
    comment = Comment(span, codes, reason, lines=None if _WORDS[match["word"].lower()] else range(0))
    if not codes:
        comment.mistake = "it names no rule"
    elif not reason:
        comment.mistake = "it gives no reason"
    return comment


def _lines_of(source: Source, line: int, *, is_alone: bool) -> range:
    """The lines that a comment stands for."""
    if is_alone:
        begin = line + 1
        while begin < source.line_count and _COMMENT.match(
            source.line(begin).strip().encode("utf-8", "surrogateescape")
        ):
            begin += 1
    else:
        begin = line
        while begin > 1 and source.line(begin - 1).endswith("\\"):
            begin -= 1
    end = begin
    while end < source.line_count and source.line(end).endswith("\\"):
        end += 1
    return range(begin, end + 1)
