"""The plots of the page, drawn by matplotlib: each twice, for a wide screen or paper and for a phone. matplotlib is imported
when something is drawn.

No word of a journal goes into a plot: what stands there are numbers and our own words.
"""

import io
import math
from collections.abc import Callable
from typing import Any

import msgspec

from lastgood.core.units import byte_size, duration
from lastgood.report import drawing
from lastgood.report.course import courses_of
from lastgood.report.markup import Markup, element
from lastgood.report.model import Report
from lastgood.report.svg import inlined

_DPI = 72
"""Then a point is a pixel."""
_LABEL_PX = 12
_MOST_RANKS = 64


class Form(msgspec.Struct, frozen=True):
    name: str
    width_px: int
    ticks: int


FORMS = (Form("wide", 928, 9), Form("narrow", 340, 4))


def is_possible() -> bool:
    """True if the library is there, and can be imported: beside another NumPy than its own it cannot."""
    try:
        import matplotlib.backends.backend_svg  # noqa: F401
    except ImportError:
        return False
    return True


def progress_chart(report: Report, *, prefix: str) -> Markup:
    """Steps over time: what each attempt did, saved and lost, and below it what the time went to."""
    begin, end = report.spans[0].begin, report.spans[-1].end
    courses = courses_of(report)
    saves = [(save.at - (save.write_s or 0.0), float(save.step)) for save in report.saves]

    def draw(figure: Any, form: Form) -> None:
        top, below = figure.subplots(2, sharex=True, height_ratios=[9, 1])
        drawing.draw_courses(top, courses, begin, end)
        drawing.draw_saves(top, saves)
        drawing.draw_faults(top, report.marks, courses)
        drawing.number_attempts(top, report.attempts, begin, end, form.width_px)
        top.set_ylabel("step")
        top.set_ylim(0, 1.06 * max(report.reached_step or 0, 1))
        top.yaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")
        top.yaxis.get_major_locator().set_params(integer=True, nbins=6)
        drawing.draw_strip(below, report.spans, begin, end)
        drawing.set_time_axis(below, begin, end, form.width_px)

    lost = f"; {report.lost_steps:,} steps were lost" if report.lost_steps else "; no step was lost"
    description = (
        f"{len(report.attempts):,} attempts over {duration(end - begin)}. Steps rise from 0 to {report.reached_step or 0:,}"
        f"{lost}. {report.save_figures.saves:,} saves. The strip below shows what the time went to; the tables have all."
    )
    return _in_all_forms(draw, prefix, 340, "Steps over time", description)


def saves_chart(report: Report, *, prefix: str) -> Markup:
    """How often it saved, against what was planned, and how long each write took."""
    begin, end = report.spans[0].begin, report.spans[-1].end
    used = [(one.at, one.interval_s) for one in report.interval.used]
    writes = [(one.at, one.write_s) for one in report.saves if one.write_s is not None]

    def draw(figure: Any, form: Form) -> None:
        top, below = figure.subplots(2, sharex=True)
        drawing.draw_points(top, used, "useful", begin, end, form.width_px // 4)
        if report.interval.said:
            at = [one.at for one in report.interval.said]
            said = [one.interval_s for one in report.interval.said]
            top.step([*at, end], [*said, said[-1]], where="post", color=drawing.STAND_IN["stopping"], linewidth=1.5)
        if report.interval.planned_s is not None:
            top.axhline(report.interval.planned_s, color=drawing.STAND_IN["lost"], linewidth=1.5, linestyle=(0, (5, 3)))
        top.set_ylabel("interval")
        drawing.draw_points(below, writes, "saving", begin, end, form.width_px // 4)
        below.set_ylabel("write")
        planned = [report.interval.planned_s] if report.interval.planned_s is not None else []
        drawing.set_seconds_axis(
            top, [*(one for _, one in used), *(one.interval_s for one in report.interval.said), *planned]
        )
        drawing.set_seconds_axis(below, [one for _, one in writes])
        drawing.set_time_axis(below, begin, end, form.width_px)

    figures = report.save_figures
    description = f"Above: {len(used):,} intervals between saves"
    if report.interval.median_used_s is not None:
        description += f", median {duration(report.interval.median_used_s)}"
    if report.interval.planned_s is not None:
        description += f", planned {duration(report.interval.planned_s)}"
    if figures.median_write_s is not None and figures.slowest_write_s is not None:
        description += (
            f". Below: {len(writes):,} writes, median {duration(figures.median_write_s)}, "
            f"the slowest {duration(figures.slowest_write_s)}"
        )
    return _in_all_forms(draw, prefix, 300, "Intervals and writes over time", description + ".")


def ranks_chart(report: Report, *, prefix: str) -> Markup:
    """The write times of each rank; of many ranks in groups that stand beside one another."""
    groups = rank_groups(len(report.ranks))
    median = [max(report.ranks[i].median_write_s for i in group) for group in groups]
    slowest = [max(report.ranks[i].slowest_write_s for i in group) for group in groups]
    places = [sum(report.ranks[i].rank for i in group) / len(group) for group in groups]

    def draw(figure: Any, form: Form) -> None:
        axes = figure.subplots()
        axes.vlines(places, median, slowest, color=drawing.STAND_IN["saving"], linewidth=2, alpha=0.6)
        axes.plot(places, slowest, "_", color=drawing.STAND_IN["saving"], markersize=8, markeredgewidth=2)
        axes.plot(places, median, "o", color=drawing.STAND_IN["useful"], markersize=6)
        axes.set_xlabel("rank")
        axes.set_ylabel("write")
        axes.set_xlim(-0.6, report.ranks[-1].rank + 0.6)
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=form.ticks)
        drawing.set_seconds_axis(axes, slowest)

    worst = max(report.ranks, key=lambda rank: rank.median_write_s)
    description = (
        f"{len(report.ranks):,} ranks. Slowest by its median write: rank {worst.rank} with "
        f"{duration(worst.median_write_s)} for {byte_size(worst.bytes)}."
    )
    return _in_all_forms(draw, prefix, 240, "Write times of ranks", description)


def rank_groups(ranks: int) -> list[range]:
    """Neighbouring ranks that share a mark.

    >>> len(rank_groups(8)), len(rank_groups(1024)), rank_groups(1024)[-1]
    (8, 64, range(1008, 1024))
    """
    size = max(math.ceil(ranks / _MOST_RANKS), 1)
    return [range(first, min(first + size, ranks)) for first in range(0, ranks, size)]


def _in_all_forms(
    draw: Callable[[Any, Form], None], prefix: str, height_px: int, title: str, description: str
) -> Markup:
    pictures = []
    for form in FORMS:
        svg = _drawn(draw, form, height_px if form.name == "wide" else round(height_px * 0.85))
        pictures.append(
            inlined(
                svg,
                prefix=f"{prefix}{form.name[0]}",
                colours={colour: role for role, colour in drawing.STAND_IN.items()},
                title=title,
                description=description,
                class_=form.name,
            )
        )
    return element("div", *pictures)


def _drawn(draw: Callable[[Any, Form], None], form: Form, height_px: int) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    ink, quiet = drawing.STAND_IN["ink"], drawing.STAND_IN["quiet"]
    look: dict[Any, Any] = {
        "svg.fonttype": "none",
        # Names in the picture depend on what is drawn, and on nothing else.
        "svg.hashsalt": "lastgood",
        "path.simplify": True,
        "font.family": "DejaVu Sans",
        "font.size": _LABEL_PX,
        "text.color": ink,
        "text.parse_math": False,
        "axes.labelcolor": quiet,
        "axes.edgecolor": quiet,
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.unicode_minus": False,
        "grid.color": drawing.STAND_IN["line"],
        "grid.linewidth": 0.7,
        "xtick.major.pad": 6,
        "xtick.color": quiet,
        "ytick.color": quiet,
        "xtick.labelcolor": quiet,
        "ytick.labelcolor": quiet,
    }
    # The user's own style of matplotlib is not the page's.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(look)
        figure = Figure(
            figsize=(form.width_px / _DPI, height_px / _DPI), dpi=_DPI, layout="constrained", facecolor="none"
        )
        FigureCanvasSVG(figure)
        draw(figure, form)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
