"""Findings as a good compiler shows them: the place, the line with a caret, what happens, what to do."""

from collections import Counter
from collections.abc import Iterator, Sequence

from lastgood.audit.finding import Audited, Finding, Problem
from lastgood.audit.formats.terminal import Style, counted, cut, harmless, pointed_at, wrapped
from lastgood.audit.rule import Severity
from lastgood.audit.source import WHOLE_FILE

_TIMES_IN_FULL = 2
_MANY = 20
"""From so many findings on it helps to know which rules most of them are of."""
_NOTHINGS_NAMED = 3
"""More files than this that are nothing for us are counted only."""


class Shown:
    """What has been shown so far, so that a thousand files with the same note do not fill a thousand pages."""

    def __init__(self, least_in_full: Severity = Severity.NOTE, explained: Sequence[str] = ()) -> None:
        self.least_in_full = least_in_full
        """What is less bad is shown in full a few times for each rule, then on two lines."""
        self.explained = set(explained)
        """Rules whose pages need not be named any more."""
        self.times: Counter[str] = Counter()
        self.is_behind_short_one = False
        self.has_short_ones = False

    def is_short(self, finding: Finding) -> bool:
        self.times[finding.rule.code] += 1
        return finding.severity < self.least_in_full and self.times[finding.rule.code] > _TIMES_IN_FULL


def text_of(
    audited: Sequence[Audited],
    problems: Sequence[Problem],
    style: Style,
    width: int = 80,
    *,
    fixed: int = 0,
    least_in_full: Severity = Severity.NOTE,
) -> Iterator[str]:
    """Line by line; a summary at the end."""
    shown = Shown(least_in_full)
    nothings = sum(problem.is_nothing for one in audited for problem in one.problems)
    for one in audited:
        yield from findings_of(one, style, width, shown)
        for problem in one.problems:
            if not problem.is_nothing or nothings <= _NOTHINGS_NAMED:
                yield from _problem(problem, style, width)
    for problem in problems:
        yield from _problem(problem, style, width)
    if shown.is_behind_short_one:
        yield ""
    yield from wrapped(summary(audited, problems, fixed), width, "", "  ")
    if sum(shown.times.values()) > _MANY:
        rules = {finding.rule.code: finding.rule.name for one in audited for finding in one.findings}
        most = ", ".join(f"{code} {rules[code]} ({times})" for code, times in shown.times.most_common(5))
        yield from wrapped(f"most often: {most}", width, "", "  ")
    if shown.has_short_ones:
        yield style.dim("what is said again is cut short; --fail-on note shows all in full")


def findings_of(audited: Audited, style: Style, width: int, shown: Shown) -> Iterator[str]:
    """Each finding, with an empty line behind it."""
    for finding in audited.findings:
        if shown.is_short(finding):
            shown.is_behind_short_one = shown.has_short_ones = True
            yield _heading(finding, style)
            yield "  " + cut(harmless(finding.message), width - 2)
            continue
        if shown.is_behind_short_one:
            shown.is_behind_short_one = False
            yield ""
        yield from _finding(finding, style, width, shown.explained)
        yield ""


def summary(audited: Sequence[Audited], problems: Sequence[Problem], fixed: int = 0) -> str:
    """One sentence on all of it; `fixed` findings are not there any more.

    >>> summary([Audited(path="a", findings=[], problems=[], files=("a",))], [])
    'no findings in 1 file'
    """
    findings = [finding for one in audited for finding in one.findings]
    paths = {path for one in audited for path in one.files}
    files = counted(len(paths), "file")
    text = f"no findings in {files}"
    if not paths:
        text = "nothing was audited"
    if findings:
        with_findings = len({finding.path for finding in findings})
        counts = Counter(finding.severity for finding in findings)
        kinds = ", ".join(f"{severity}: {counts[severity]}" for severity in sorted(counts, reverse=True))
        text = f"{counted(len(findings), 'finding')} in {with_findings} of {files} ({kinds})"
        fixable = sum(bool(finding.edits) for finding in findings)
        if fixable:
            text += f"; {fixable} can be fixed with --fix"
    if fixed:
        text += f"; {fixed} fixed"
    silenced = sum(len(one.silenced) for one in audited)
    if silenced:
        text += f"; {silenced} silenced by comments"
    nothings = sum(problem.is_nothing for one in audited for problem in one.problems)
    if nothings > _NOTHINGS_NAMED:
        text += f"; {nothings} files hold nothing to audit"
    unread = sum(not problem.is_partial for one in audited for problem in one.problems)
    unread += sum(not problem.is_partial for problem in problems)
    if unread:
        text += f"; {unread} could not be audited"
    return text


def _heading(finding: Finding, style: Style) -> str:
    place = f"{harmless(finding.path)}:"
    if finding.span != WHOLE_FILE:
        place += f"{finding.span.line}:{finding.span.column}:"
    return f"{style.bold(place)} {style.severity(finding.severity, str(finding.severity))} [{finding.rule.code}]"


def _finding(finding: Finding, style: Style, width: int, explained: set[str]) -> Iterator[str]:
    code = finding.rule.code
    yield _heading(finding, style)
    yield from wrapped(finding.message, width)
    number = f"{finding.span.line:>6} | "
    line, caret = pointed_at(finding.excerpt, finding.span, width - len(number))
    if line and finding.span != WHOLE_FILE:
        yield style.dim(number) + line
        yield style.dim(" " * (len(number) - 2) + "| ") + style.good(caret)
    first, *others = wrapped(f"what to do: {finding.remedy}", width, others="    ")
    yield first.replace("what to do:", style.bold("what to do:"), 1)
    yield from others
    if code not in explained:
        explained.add(code)
        yield style.dim(f"  more: lastgood explain {code}")


def _problem(problem: Problem, style: Style, width: int) -> Iterator[str]:
    place = harmless(problem.path)
    if problem.span is not None:
        place += f":{problem.span.line}:{problem.span.column}"
    how = "note" if problem.is_partial else "error"
    shown = style.severity(Severity.NOTE if problem.is_partial else Severity.LOST, how)
    first, *others = wrapped(f"{place}: {how}: {problem.message}", width, "", "  ")
    yield first.replace(f"{place}: {how}:", f"{style.bold(place + ':')} {shown}:", 1)
    yield from others
