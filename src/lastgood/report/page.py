"""What the page says of one job, from what somebody wants first to what few look up. Pure, but for the plots."""

from collections.abc import Sequence

from lastgood.core.quoting import shown
from lastgood.core.units import duration
from lastgood.report import charts, drawing, page_tables, strips, words
from lastgood.report.advice import advice_on, last_good_of
from lastgood.report.markup import Markup, element, table, together
from lastgood.report.model import Report
from lastgood.report.page_time import swatch, where_time_went
from lastgood.report.words import counted, value


def job_part(report: Report, *, name: str, anchor: str, has_plots: bool, is_alone: bool) -> Markup:
    """One job. `has_plots` says whether plots are drawn; without them it has the same in strips and tables."""
    title = element("h1" if is_alone else "h2", name, " ", _badge(report), id=f"{anchor}-title")
    parts: list[Markup | None] = [
        title,
        None if is_alone else element("p", element("a", "All jobs", href="#report"), class_="back"),
        element("p", element("code", shown(report.job)), class_="quiet"),
        element("p", element("code", f"$ {report.command}"), class_="quiet") if report.command else None,
        _verdict(report),
        _to_do(report),
        _cards(report),
    ]
    if report.spans:
        parts += [
            _time_line(report, anchor, has_plots=has_plots),
            where_time_went(
                report.shares,
                report.ettr,
                title="Where the time went",
                caption=f"All of {duration(report.seconds)}",
                prefix="seconds-",
            ),
            _interval(report, anchor, has_plots=has_plots),
        ]
    parts += [
        page_tables.outcomes(report.outcomes),
        page_tables.attempts(report),
        page_tables.happenings(report),
        page_tables.checkpoints(report),
        _ranks(report, anchor, has_plots=has_plots),
        page_tables.failed_saves(report),
        _remarks(report),
    ]
    return element("section", *parts, id=anchor, aria_labelledby=f"{anchor}-title", data_job=report.id)


def _badge(report: Report) -> Markup:
    return element("span", report.state, class_=f"badge {words.state_class(report)}", data_is="state")


def _verdict(report: Report) -> Markup:
    """Is it done, and what did it lose: two sentences."""
    of = f" of {report.total_steps:,}" if report.total_steps else ""
    done = "" if report.reached_step is None else f"step {report.reached_step:,}{of}"
    attempts = counted(len(report.attempts), "attempt")
    if not report.attempts:
        return element("p", element("b", "It has not started yet."), " ", report.why, class_="verdict")
    took = f" over {duration(report.seconds)}" if report.seconds else ""
    head = {
        "finished": "Finished",
        "given up": "Given up",
        "stopped, unfinished": "Stopped before its end",
        "running": "Running",
    }.get(report.state, report.state[:1].upper() + report.state[1:])
    lost = f"Lost: {words.lost_in_all(report)}."
    if not report.lost_steps and all(line.is_loss_known for line in report.attempts):
        lost = "Nothing was lost."
    return element(
        "p",
        element("b", f"{head}{': ' + done if done else ''}"),
        f" after {attempts}{took}. {lost}",
        f" If it failed now, {duration(report.unsaved_s)} of work would be lost." if report.unsaved_s else None,
        class_="verdict",
    )


def _to_do(report: Report) -> Markup:
    said = advice_on(report)
    if not said:
        return element(
            "div", element("p", element("b", "Nothing to do.")), class_="todo", data_is="to-do", data_count=0
        )
    items = [
        element("li", one.text, together([" ", element("code", one.command)]) if one.command else None) for one in said
    ]
    why = element("p", "Why: ", report.why) if report.state == "given up" else None
    return element(
        "div",
        element("p", element("b", "To do")),
        element("ul", *items),
        why,
        class_=f"todo {'bad' if said[0].urgency == 'now' else 'warn'}",
        data_is="to-do",
        data_count=len(said),
    )


def _cards(report: Report) -> Markup:
    cards = []
    if report.ettr is not None:
        cards.append(_card("Useful share (ETTR)", value(report.ettr.share, words.percent(report.ettr.share), "ettr")))
    ended = sum(mark.kind == "fault" for mark in report.marks)
    cards += [
        _card(
            "Lost",
            value(report.lost_steps, counted(report.lost_steps, "step"), "lost-steps"),
            value(report.lost_s, f"{duration(report.lost_s)} from save to failure" if report.lost_s else "", "lost-s"),
        ),
        _card(
            "Attempts",
            value(len(report.attempts), f"{len(report.attempts):,}", "attempts"),
            value(ended, f"{ended:,} interrupted", "faults"),
        ),
        _card(
            "Saves",
            value(report.save_figures.saves, f"{report.save_figures.saves:,}", "saves"),
            value(report.save_figures.failed, f"{report.save_figures.failed:,} failed", "failed-saves"),
        ),
    ]
    good = last_good_of(report)
    if good is None:
        cards.append(_card("Last good checkpoint", value("", "none", "last-good-step")))
    else:
        seen = f"{words.span(good.age_s)} old, {words.size(good.bytes)}, {page_tables.verified_told(good)}"
        cards.append(_card("Last good checkpoint", value(good.step, f"step {good.step:,}", "last-good-step"), seen))
    return element("dl", *cards, class_="cards")


def _card(name: str, figure: Markup, more: object = None) -> Markup:
    return element(
        "div",
        element("dt", name),
        element("dd", figure),
        element("dd", more, class_="small") if more else None,
        class_="card",
    )


def _time_line(report: Report, anchor: str, *, has_plots: bool) -> Markup:
    begin, end = report.spans[0].begin, report.spans[-1].end
    marks = [mark for mark in report.marks if mark.kind == "fault"]
    what = (
        f"{counted(len(report.attempts), 'attempt')}, {counted(len(marks), 'interruption')}, "
        f"{counted(report.save_figures.saves, 'save')} in {duration(end - begin)}"
    )
    if has_plots and any(line.reached_step for line in report.attempts):
        picture = charts.progress_chart(report, prefix=f"{anchor}p")
        key: list[Markup | None] = [
            _tick("○", "a save") if drawing.are_drawn(report.save_figures.saves) else None,
            _tick("×" if drawing.are_drawn(len(marks)) else "|", "an attempt was interrupted")
            if len(marks) <= drawing.MOST_LINES
            else None,
            _tick("#", "number of an attempt"),
        ]
    else:
        picture = together(
            [
                strips.strip(report.spans, [mark.at for mark in marks], begin, end, label=f"Time line: {what}"),
                element("div", words.instant(begin), words.instant(end), class_="axis"),
            ]
        )
        key = [_tick("|", "an attempt was interrupted")]
    kinds = [share.kind for share in report.shares if share.seconds > 0]
    swatches = [element("li", swatch(kind), kind) for kind in kinds]
    drawn = f"{what}."
    if has_plots and not drawing.are_drawn(report.save_figures.saves):
        drawn += " Saves are too many to be marked one by one" + (
            ", and so are interruptions." if len(marks) > drawing.MOST_LINES else "."
        )
    if strips.is_in_columns(report.spans):
        drawn += (
            f" The strip draws {len(report.spans):,} spans as {strips.COLUMNS} columns; each is filled by the shares of what "
            "happened in it."
        )
    return together(
        [
            element("h3", "Time line"),
            element("figure", picture, element("ul", *key, *swatches, class_="key"), element("figcaption", drawn)),
        ]
    )


def _tick(sign: str, text: str) -> Markup:
    return element("li", element("span", sign, class_="tick", aria_hidden="true"), text)


def _interval(report: Report, anchor: str, *, has_plots: bool) -> Markup | None:
    interval, figures = report.interval, report.save_figures
    if not figures.saves:
        return None
    if interval.planned_s is not None:
        planned = (
            f"{duration(interval.planned_s)} ({interval.planned_by})"
            if interval.planned_by
            else duration(interval.planned_s)
        )
    else:
        planned = "no plan is known: `lastgood plan` makes one"
    rows: list[tuple[str, object]] = [
        (
            "Interval used, median",
            value(interval.median_used_s or "", words.span(interval.median_used_s), "interval-used"),
        ),
        ("Interval planned", value(interval.planned_s or "", planned, "interval-planned")),
    ]
    if interval.said:
        rows.append(("Interval that the program kept to last", duration(interval.said[-1].interval_s)))
    if interval.planned_ettr is not None and report.ettr is not None:
        rows.append(
            ("ETTR planned, and reached", f"{words.percent(interval.planned_ettr)}, {words.percent(report.ettr.share)}")
        )
    if figures.median_write_s is not None:
        fastest, slowest = words.span(figures.fastest_write_s), words.span(figures.slowest_write_s)
        rows.append(("Write, median", f"{duration(figures.median_write_s)} (from {fastest} to {slowest})"))
    if figures.median_stall_s is not None:
        rows.append(("The loop stood still for a save", f"{duration(figures.median_stall_s)} (median)"))
    if staged := [save for save in report.saves if save.stage]:
        promoted = sum(save.promoted_at is not None for save in staged)
        rows.append(
            ("On a node's own disk first", f"{len(staged):,}; of these came to the job's directory: {promoted:,}")
        )
    if figures.bytes_in_all:
        rows.append(("Written", f"{words.size(figures.bytes_in_all)} in all, the newest {words.size(figures.bytes)}"))
    chart = None
    if has_plots and (len(interval.used) > 1 or figures.saves > 2):
        key = [
            element("li", swatch("useful"), "interval used"),
            element("li", swatch("stopping"), "interval that the program kept to") if interval.said else None,
            element("li", swatch("lost"), "planned interval (dashed)") if interval.planned_s is not None else None,
            element("li", swatch("saving"), "write") if figures.median_write_s is not None else None,
        ]
        chart = element(
            "figure",
            charts.saves_chart(report, prefix=f"{anchor}s"),
            element("ul", *key, class_="key"),
            element(
                "figcaption", "Each dot is a save; where they fall together, the lowest and the highest are drawn."
            ),
        )
    return together(
        [element("h3", "Saves: interval and writes"), chart, table("Used and planned", ["Measure", "Value"], rows)]
    )


def _ranks(report: Report, anchor: str, *, has_plots: bool) -> Markup | None:
    if not report.ranks:
        return None
    chart = None
    if has_plots and len(report.ranks) > 1:
        groups = charts.rank_groups(len(report.ranks))
        size = len(groups[0])
        text = "Dot: median of the writes; bar: the slowest."
        if size > 1:
            text += (
                f" {len(report.ranks):,} ranks are drawn as {len(groups)} groups of up to {size}, each by its slowest."
            )
        chart = element("figure", charts.ranks_chart(report, prefix=f"{anchor}r"), element("figcaption", text))
    return together([element("h3", "Write times of ranks"), chart, page_tables.ranks(report)])


def _remarks(report: Report) -> Markup:
    problems = report.problems
    parts: list[object] = [element("h3", "Problems found in the journals")]
    if problems:
        shown = problems[: page_tables.MOST_ROWS]
        caption = f"{counted(len(problems), 'problem')}; the rest of the journals is used"
        if len(shown) < len(problems):
            caption += f" (the first {len(shown)} are listed)"
        rows = [(element("span", p.where, class_="mono"), element("span", p.what, class_="why")) for p in shown]
        parts.append(table(caption, ["Where", "What"], rows))
    else:
        parts.append(element("p", "None: all that was written could be read."))
    if report.notes:
        parts += [element("h3", "Notes"), element("ul", *_items(report.notes))]
    return together(parts)


def _items(texts: Sequence[str]) -> list[Markup]:
    return [element("li", text) for text in texts]
