"""The tables of the page for one job. Long ones are cut to what says most, and their captions say what is left out. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence

from lastgood.core.units import duration
from lastgood.report import words
from lastgood.report.markup import Markup, element, table, together
from lastgood.report.model import AttemptLine, Checkpoint, FailedSave, Mark, Outcome, Report
from lastgood.report.saving import count_failed
from lastgood.report.words import counted, value

MOST_ROWS = 200
_ELSEWHERE = "--format json has all"
_KINDS = {"fault": "ended: ", "hang": "seen: ", "stop asked": "stop asked: "}
_LONG_NAME = 40


def outcomes(found: Sequence[Outcome]) -> Markup | None:
    if not found:
        return None
    rows = [
        (
            one.outcome,
            value(one.attempts, f"{one.attempts:,}", "outcome-attempts"),
            value(one.lost_steps, words.step(one.lost_steps), "outcome-lost-steps"),
            words.span(one.lost_s) if one.lost_steps else words.NOTHING,
            words.span(one.mean_restart_s),
        )
        for one in found
    ]
    head = ["Outcome", "Attempts", "Lost steps", "Lost time", "Until new steps (mean)"]
    return together(
        [
            element("h3", "How attempts ended"),
            table("Most frequent first", head, rows, numbers=range(1, 5), data_of="outcomes"),
        ]
    )


def attempts(report: Report) -> Markup | None:
    if not report.attempts:
        return None
    shown = _chosen(report.attempts, lambda line: (line.lost_s, line.lost_steps))
    caption = f"{counted(len(report.attempts), 'attempt')}, oldest first; times in UTC"
    if len(shown) < len(report.attempts):
        caption = (
            f"{len(shown)} of {len(report.attempts):,} attempts: the {MOST_ROWS // 2} that lost most time, and the newest; "
            f"{_ELSEWHERE}"
        )
    head = ["#", "Began", "Steps", "Lost", "Outcome", "Start", "Where"]
    rows = [_attempt_row(line, report) for line in shown]
    return together([element("h3", "Attempts"), table(caption, head, rows, numbers=(0, 3), data_of="attempts")])


def _attempt_row(line: AttemptLine, report: Report) -> list[object]:
    end = line.ended if line.ended is not None else report.made_at
    took = duration(max(end - line.began, 0.0))
    if not line.is_end_seen and line.ended is not None:
        took = f"at least {took}"
    ways = (
        (line.is_from_memory, "from memory"),
        (line.is_standby, "in a standby"),
        (line.is_inner, "inside the attempt before"),
    )
    start = ", ".join([line.how or words.NOTHING, *(text for is_so, text in ways if is_so)])
    return [
        f"{line.attempt}",
        two_lines(words.instant(line.began, is_short=True), f"for {took}"),
        two_lines(
            element("span", f"{words.step(line.from_step)} to {words.step(line.reached_step)}", class_="nowrap"),
            counted(line.saves, "save"),
        ),
        two_lines(
            value(line.lost_steps, words.lost_steps(line), "attempt-lost-steps"),
            duration(line.lost_s) if line.lost_steps else "",
        ),
        _ending(line),
        element(
            "div",
            two_lines(start, "" if line.restart_s is None else f"steps after {duration(line.restart_s)}"),
            class_="some",
        ),
        two_lines(line.host or words.NOTHING, line.allocation),
    ]


def two_lines(first: object, second: str) -> Markup:
    """What counts, and below it what goes with it."""
    return together([first, element("div", second, class_="quiet") if second else None])


def _ending(line: AttemptLine) -> Markup:
    reason = line.reason if line.reason != line.outcome else ""
    if line.exit_code and str(line.exit_code) not in reason:
        reason = f"{reason} (exit code {line.exit_code})" if reason else f"exit code {line.exit_code}"
    ending = line.outcome or ("running" if line.ended is None else "nobody saw its end")
    told = together([element("b", ending), f": {reason}" if reason else None])
    return element("div", two_lines(told, line.decided), class_="why")


def _chosen(lines: Sequence[AttemptLine], weight: Callable[[AttemptLine], object]) -> list[AttemptLine]:
    """All, or those that weigh most and the newest, in their order."""
    if len(lines) <= MOST_ROWS:
        return list(lines)
    half = MOST_ROWS // 2
    newest = set(range(len(lines) - half, len(lines)))
    heaviest = sorted(range(len(lines) - half), key=lambda i: weight(lines[i]), reverse=True)[:half]  # type: ignore[arg-type, return-value]
    return [lines[i] for i in sorted(newest | set(heaviest))]


def happenings(report: Report) -> Markup | None:
    """What the time line marks, alike things together: a thousand warnings are one row."""
    groups: dict[tuple[str, str], list[Mark]] = {}
    for mark in report.marks:
        groups.setdefault((mark.kind, mark.what), []).append(mark)
    if not groups:
        return None
    rows = [
        (
            _KINDS.get(kind, "") + what,
            value(len(marks), f"{len(marks):,}", "mark-count"),
            words.instant(marks[0].at, is_short=True),
            words.instant(marks[-1].at, is_short=True) if len(marks) > 1 else words.NOTHING,
            element("div", marks[-1].text, class_="why"),
        )
        for (kind, what), marks in sorted(groups.items(), key=lambda group: group[1][0].at)
    ][:MOST_ROWS]
    caption = f"{counted(len(report.marks), 'event')}, alike ones together; times in UTC"
    head = ["What", "Times", "First", "Last", "The last one in full"]
    return together([element("h3", "What happened"), table(caption, head, rows, numbers=(1,), data_of="marks")])


def checkpoints(report: Report) -> Markup:
    found = report.checkpoints
    title = element("h3", "Checkpoints")
    if not found:
        return together([title, element("p", "There is none.")])
    named = [one for one in found if one.state != "good" or one.is_pinned or one.verified == "failed"][: MOST_ROWS // 2]
    kept = {id(one) for one in [*named, *found[: MOST_ROWS - len(named)]]}
    shown = [one for one in found if id(one) in kept]
    good = sum(one.state == "good" for one in found)
    caption = f"{counted(len(found), 'checkpoint')} there now, {good:,} good; newest first"
    if len(shown) < len(found):
        caption += f". {len(shown)} are listed: the newest, and those that are not good or are pinned; {_ELSEWHERE}"
    head = ["Step", "Attempt", "Age", "Size", "Ranks", "State", "Verified", "Name"]
    rows = [_checkpoint_row(one) for one in shown]
    return together([title, table(caption, head, rows, numbers=range(5), data_of="checkpoints")])


def _checkpoint_row(one: Checkpoint) -> list[object]:
    kind = "good" if one.state == "good" else "bad"
    more = [text for text, is_so in (("last good", one.is_last_good), ("pinned", one.is_pinned)) if is_so]
    if one.stage:
        more.append("on this node only")
    told = together([element("span", one.state, class_=kind), f", {', '.join(more)}" if more else None])
    return [
        value(one.step, f"{one.step:,}", "checkpoint-step"),
        f"{one.attempt}",
        words.span(one.age_s),
        words.size(one.bytes),
        words.NOTHING if one.world_size is None else f"{one.world_size:,}",
        element("div", told, element("div", one.problem, class_="why") if one.problem else None),
        element("div", verified_told(one), class_="some"),
        element("span", one.name, class_="mono" if len(one.name) > _LONG_NAME else "mono nowrap"),
    ]


def verified_told(one: Checkpoint) -> str:
    """Whether somebody has read all of it since it was written."""
    by = f" by {one.verified_by}" if one.verified_by else ""
    return {
        "no": "not read back",
        "restored": f"read and restored{by}",
        "read": f"read and whole{by}",
        "failed": f"read and not whole{by}",
    }[one.verified]


def ranks(report: Report) -> Markup:
    worst = sorted(report.ranks, key=lambda rank: rank.median_write_s, reverse=True)[: MOST_ROWS // 4]
    shown = sorted(worst, key=lambda rank: rank.rank) if len(worst) == len(report.ranks) else worst
    caption = "Over the checkpoints that are there"
    if len(worst) < len(report.ranks):
        caption += f": the {len(worst)} slowest of {len(report.ranks):,} ranks, slowest first; {_ELSEWHERE}"
    rows = [
        (
            f"{one.rank}",
            value(one.median_write_s, duration(one.median_write_s), "rank-median"),
            duration(one.slowest_write_s),
            words.size(one.bytes),
            f"{one.checkpoints:,}",
        )
        for one in shown
    ]
    head = ["Rank", "Write (median)", "Slowest", "Size", "Checkpoints"]
    return table(caption, head, rows, numbers=range(5), data_of="ranks")


def failed_saves(report: Report) -> Markup | None:
    """Alike errors together."""
    groups: dict[str, list[FailedSave]] = {}
    for one in report.failed_saves:
        groups.setdefault(one.error, []).append(one)
    if not groups:
        return None
    rows = [
        (
            element("div", error, class_="why"),
            f"{count_failed(found):,}",
            words.instant(found[0].at, is_short=True),
            words.instant(found[-1].at, is_short=True),
            _ranks_told(found),
        )
        for error, found in sorted(groups.items(), key=lambda group: -count_failed(group[1]))
    ][:MOST_ROWS]
    caption = f"{counted(count_failed(report.failed_saves), 'failed save')}, alike ones together; times in UTC"
    return together(
        [
            element("h3", "Saves that failed"),
            table(caption, ["Error", "Times", "First", "Last", "Ranks"], rows, numbers=(1,), data_of="failed-saves"),
        ]
    )


def _ranks_told(found: Sequence[FailedSave]) -> str:
    counts = Counter(one.rank for one in found if one.rank is not None)
    listed = sorted(counts)[:8]
    more = f" and {len(counts) - len(listed)} more" if len(counts) > len(listed) else ""
    return (", ".join(str(rank) for rank in listed) + more) or words.NOTHING
