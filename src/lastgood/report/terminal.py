"""A report as a page of text that a person reads: as wide as the terminal, in its characters. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from lastgood.core.units import byte_size, duration
from lastgood.report.model import AttemptLine, Checkpoint, FleetReport, Report, Share
from lastgood.report.ruler import time_line
from lastgood.report.textual import Screen, facts, shorten, table, wrap

_MOST_ATTEMPTS = 30
_MOST_TROUBLE = 10
_MOST_CHECKPOINTS = 12
_MOST_RANKS = 6


def page_of(fleet: FleetReport, screen: Screen, *, is_all: bool = False) -> str:
    """All jobs, each on a page of its own below the table of all. `is_all`: no list is cut short."""
    blocks = []
    if len(fleet.jobs) + len(fleet.not_read) > 1:
        blocks.append("\n".join(_fleet(fleet, screen)))
    blocks += [job_page(report, screen, is_all=is_all) for report in fleet.jobs]
    rule = ("─" if screen.is_unicode else "-") * screen.width
    return f"\n\n{rule}\n".join(blocks)


def job_page(report: Report, screen: Screen, *, is_all: bool = False) -> str:
    """One job."""
    sections: list[tuple[str, list[str]]] = [
        ("", _head(report, screen)),
        ("WHERE THE TIME WENT", _where(report, screen)),
        ("TIME LINE", time_line(report, screen, is_all=is_all)),
        ("", _attempts(report, screen, is_all=is_all)),
        ("", _outcomes(report, screen)),
        ("SAVES", _saves(report, screen)),
        ("", _checkpoints(report, screen, is_all=is_all)),
        ("WRITE TIMES OF RANKS, SLOWEST FIRST", _ranks(report, screen, is_all=is_all)),
        ("", _trouble(report, screen, is_all=is_all)),
        ("", _remarks(report, screen)),
    ]
    blocks = []
    for title, lines in sections:
        if lines:
            blocks.append("\n".join([*([screen.strong(title)] if title else []), *lines]))
    return "\n\n".join(blocks)


def _head(report: Report, screen: Screen) -> list[str]:
    state = report.state if not report.why or report.why == report.state else f"{report.state}: {report.why}"
    return facts(
        [
            ("job", f"{report.job} (id {report.id})"),
            ("state", state),
            ("command", report.command),
            ("time", _time(report)),
            ("steps", _steps(report)),
            ("lost", _lost(report)),
            ("ETTR", "" if report.ettr is None else _ettr(report)),
        ],
        screen,
    )


def _time(report: Report) -> str:
    if report.began is None:
        return ""
    until = "until now" if report.ended is None else f"until {_when(report.ended)}"
    attempts = "1 attempt" if len(report.attempts) == 1 else f"{len(report.attempts)} attempts"
    return f"{duration(report.seconds)} in {attempts}, from {_when(report.began)} {until} UTC"


def _steps(report: Report) -> str:
    if report.reached_step is None:
        return ""
    of = "" if report.total_steps is None else f" of {report.total_steps:,}"
    good = "nothing is saved" if report.last_good_step is None else f"the last good one is {report.last_good_step:,}"
    return f"{report.reached_step:,}{of} done, {good}"


def _lost(report: Report) -> str:
    unseen = [attempt for attempt in report.attempts if not attempt.is_loss_known]
    known = f"{report.lost_steps:,} steps, {duration(report.lost_s)}" if report.lost_steps else ""
    if unseen:
        who = f"attempt {unseen[0].attempt}" if len(unseen) == 1 else f"{len(unseen)} attempts"
        return f"{known + ', and more: ' if known else ''}unknown how many steps by {who}, whose last step nobody saw"
    return known or ("nothing" if report.attempts else "")


def _ettr(report: Report) -> str:
    assert report.ettr is not None
    running = report.ettr.running_share
    beside = "" if running is None or running == report.ettr.share else f", {running:.1%} of the time in which it ran"
    planned = report.interval.planned_ettr
    return f"{report.ettr.share:.1%}{beside}" + ("" if planned is None else f"; planned {planned:.1%}")


def _where(report: Report, screen: Screen) -> list[str]:
    if report.ettr is None:
        return []
    lines = shares_table(report.shares, screen)
    lines += ["", *wrap(f"ETTR = {report.ettr.formula}", screen.width, "  ")]
    lines += ["     " + line for line in wrap(f"= {report.ettr.with_numbers}", screen.width - 5, "  ")]
    for doubt in report.ettr.doubts:
        lines += wrap(f"but: {doubt}", screen.width, "  ")
    return lines


def shares_table(shares: Sequence[Share], screen: Screen) -> list[str]:
    """A bar for each kind that there is."""
    there = [share for share in shares if share.seconds > 0]
    names = max((len(share.kind) for share in there), default=0)
    times = {share.kind: duration(share.seconds) for share in there}
    hours = {share.kind: f"{share.gpu_hours:,.3g} GPU-h" for share in there if share.gpu_hours}
    wide = max((len(text) for text in times.values()), default=0)
    wider = max((len(text) for text in hours.values()), default=0)
    cells = max(min(screen.width - names - wide - 14 - (wider + 2 if wider else 0), 60), 8)
    lines = []
    for share in there:
        bar = screen.painted(share.kind, screen.bar(share.share, cells))
        beside = f"  {hours.get(share.kind, ''):>{wider}}" if wider else ""
        lines.append(f"{share.kind:<{names}}  {bar}  {times[share.kind]:>{wide}}  {share.share:>6.1%}{beside}".rstrip())
    return lines


def _attempts(report: Report, screen: Screen, *, is_all: bool) -> list[str]:
    shown = report.attempts if is_all else report.attempts[-_MOST_ATTEMPTS:]
    if not shown:
        return []
    rows = [
        [
            f"{a.attempt}{'+' if a.is_inner else ''}",
            _when(a.began)[5:],
            "" if a.ended is None else duration(a.ended - a.began),
            "" if a.from_step is None else f"{a.from_step}",
            "" if a.reached_step is None else f"{a.reached_step}",
            _lost_by(a),
            "" if a.restart_s is None else duration(a.restart_s),
            _where_ran(a),
            how_it_ended(a),
        ]
        for a in shown
    ]
    head = ["#", "BEGAN (UTC)", "TOOK", "FROM", "TO", "LOST", "START", "WHERE", "HOW IT ENDED"]
    lines = table(head, rows, screen, right=[0, 2, 3, 4, 5, 6], may_lack=["FROM", "WHERE", "START", "BEGAN (UTC)"])
    if len(shown) < len(report.attempts):
        lines.append(f"({len(report.attempts) - len(shown)} earlier attempts: --all)")
    return lines


def _lost_by(a: AttemptLine) -> str:
    if a.is_loss_known:
        return f"{a.lost_steps}" if a.lost_steps else ""
    return f"{a.lost_steps}+" if a.lost_steps else "?"


def _where_ran(a: AttemptLine) -> str:
    return shorten(a.nodes[0] + ("..." if len(a.nodes) > 1 else ""), 16) if a.nodes else ""


def how_it_ended(a: AttemptLine) -> str:
    """In words; what is in the reason already is not said twice."""
    if not a.outcome:
        return "running"
    if not a.reason:
        return a.outcome
    return a.reason if a.outcome in a.reason else f"{a.outcome}: {a.reason}"


def _outcomes(report: Report, screen: Screen) -> list[str]:
    if len(report.attempts) < 2:
        return []
    rows = [
        [
            one.outcome,
            f"{one.attempts}",
            f"{one.lost_steps:,}" if one.lost_steps else "",
            duration(one.lost_s) if one.lost_s else "",
            "" if one.mean_restart_s is None else f"{duration(one.mean_restart_s)} (mean)",
        ]
        for one in report.outcomes
    ]
    return table(["OUTCOME", "ATTEMPTS", "LOST STEPS", "IN", "STEPS AGAIN AFTER"], rows, screen, right=[1, 2, 3])


def _saves(report: Report, screen: Screen) -> list[str]:
    f, interval = report.save_figures, report.interval
    if not f.saves and not f.failed:
        return ["nothing was saved"] if report.attempts else []
    written = "" if f.median_write_s is None else f"{duration(f.median_write_s)} (median)"
    if f.fastest_write_s is not None and f.slowest_write_s is not None and f.saves > 1:
        written += f", {duration(f.fastest_write_s)} to {duration(f.slowest_write_s)}"
    size = "" if f.bytes is None else f"{byte_size(f.bytes)}, {byte_size(f.bytes_in_all)} in all"
    return facts(
        [
            ("saves", f"{f.saves:,}" + (f", and {f.failed} that failed" if f.failed else "")),
            ("interval", _interval(report)),
            ("promised", "" if not interval.said else duration(interval.said[-1].interval_s)),
            ("planned", _planned(report)),
            ("written in", written),
            ("stall", "" if f.median_stall_s is None else f"{duration(f.median_stall_s)} (median)"),
            ("size", size),
        ],
        screen,
    )


def _interval(report: Report) -> str:
    used = report.interval.used
    if report.interval.median_used_s is None:
        return ""
    shortest, longest = min(one.interval_s for one in used), max(one.interval_s for one in used)
    spread = f", {duration(shortest)} to {duration(longest)}" if len(used) > 1 else ""
    return f"{duration(report.interval.median_used_s)} (median){spread}"


def _planned(report: Report) -> str:
    planned, used = report.interval.planned_s, report.interval.median_used_s
    if planned is None:
        return ""
    text = f"{duration(planned)} ({report.interval.planned_by})"
    if used is None or planned <= 0:
        return text
    off = used / planned - 1
    if abs(off) < 0.05:
        return f"{text}: as used"
    return f"{text}: the one used is {abs(off):.0%} {'longer' if off > 0 else 'shorter'}"


def _checkpoints(report: Report, screen: Screen, *, is_all: bool) -> list[str]:
    shown = report.checkpoints if is_all else report.checkpoints[:_MOST_CHECKPOINTS]
    if not shown:
        return []
    rows = [
        [
            f"{c.step}",
            f"{c.attempt}",
            "" if c.age_s is None else duration(c.age_s),
            "" if c.bytes is None else byte_size(c.bytes),
            "" if c.world_size is None else f"{c.world_size}",
            _verified(c),
            _state(c),
        ]
        for c in shown
    ]
    head = ["STEP", "#", "AGE", "SIZE", "RANKS", "VERIFIED", "STATE"]
    lines = table(head, rows, screen, right=[0, 1, 2, 3, 4], may_lack=["RANKS", "SIZE", "AGE"])
    if len(shown) < len(report.checkpoints):
        lines.append(f"({len(report.checkpoints) - len(shown)} more: --all)")
    return lines


def _verified(c: Checkpoint) -> str:
    by = "report" if c.verified_by == "this report" else c.verified_by.partition(",")[0]
    return {"no": "no", "failed": f"FAILED, {by}", "restored": f"by {by}", "read": f"by this {by}"}[c.verified]


def _state(c: Checkpoint) -> str:
    words = [f"{c.state}: {c.problem}" if c.problem else "last good" if c.is_last_good else c.state]
    if c.state == "seen":
        words = [c.name]
    if c.is_pinned:
        words.append("pinned")
    if c.stage:
        words.append(f"on this node only, in {c.stage}")
    return "; ".join(words)


def _ranks(report: Report, screen: Screen, *, is_all: bool) -> list[str]:
    if len(report.ranks) < 2:
        return []
    slowest = sorted(report.ranks, key=lambda rank: -rank.median_write_s)
    shown = slowest if is_all else slowest[:_MOST_RANKS]
    longest = max(slowest[0].median_write_s, 1e-9)
    rows = [
        [
            f"{one.rank}",
            duration(one.median_write_s),
            duration(one.slowest_write_s),
            byte_size(one.bytes),
            screen.bar(one.median_write_s / longest, 20),
        ]
        for one in shown
    ]
    lines = table(["RANK", "MEDIAN", "LONGEST", "SIZE", ""], rows, screen, right=[0, 1, 2, 3])
    if len(shown) < len(slowest):
        middle = slowest[len(slowest) // 2].median_write_s
        lines.append(
            f"({len(slowest) - len(shown)} faster ones; the middle one of all takes {duration(middle)}: --all)"
        )
    return lines


def _trouble(report: Report, screen: Screen, *, is_all: bool) -> list[str]:
    found = [mark for mark in report.marks if mark.kind in ("trouble", "hang")]
    shown = found if is_all else found[-_MOST_TROUBLE:]
    rows = [[_when(mark.at)[5:], f"{mark.attempt}", mark.what, mark.text] for mark in shown]
    lines = table(["TROUBLE (UTC)", "#", "WHAT", ""], rows, screen, right=[1]) if rows else []
    if len(shown) < len(found):
        lines.append(f"({len(found) - len(shown)} earlier: --all)")
    return lines


def _remarks(report: Report, screen: Screen) -> list[str]:
    lines = []
    for problem in report.problems:
        lines += wrap(f"problem: {problem.where}: {problem.what}", screen.width, "  ")
    for note in report.notes:
        lines += wrap(f"note: {note}", screen.width, "  ")
    return lines


def _fleet(fleet: FleetReport, screen: Screen) -> list[str]:
    rows = [
        [
            "" if report.ettr is None else f"{report.ettr.share:.1%}",
            report.state,
            duration(report.seconds) if report.spans else "",
            f"{len(report.attempts)}",
            f"{report.lost_steps:,}" if report.lost_steps else "",
            report.job,
        ]
        for report in fleet.jobs
    ]
    head = ["ETTR", "STATE", "TIME", "ATTEMPTS", "LOST STEPS", "JOB"]
    lines = table(head, rows, screen, right=[0, 2, 3, 4], may_lack=["ATTEMPTS", "LOST STEPS"]) if rows else []
    for bad in fleet.not_read:
        lines += wrap(
            f"not read: {bad.job}: {bad.error}" + (f" ({bad.remedy})" if bad.remedy else ""), screen.width, "  "
        )
    if fleet.ettr is not None and len(fleet.jobs) > 1:
        lines += ["", screen.strong("WHERE THE TIME OF ALL WENT"), *shares_table(fleet.shares, screen)]
        lines += ["", *wrap(f"ETTR of all = {fleet.ettr.with_numbers}", screen.width, "  ")]
    return lines


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
