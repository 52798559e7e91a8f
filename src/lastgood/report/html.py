"""A report as one page that needs nothing else: no network, no script, light and dark, for a screen, a phone and paper.

Its policy forbids the browser to load or to run anything, so that even a mistake in escaping could do nothing.
"""

from lastgood import __version__
from lastgood.report import charts, fleet_page, page, words
from lastgood.report.markup import Markup, element
from lastgood.report.model import FleetReport
from lastgood.report.style import style_sheet
from lastgood.report.words import counted

MOST_JOBS_WITH_PLOTS = 8
"""Plots of more would make the page slow to make, and large."""

MOST_JOBS_IN_FULL = 40
"""The others have their row in the table of all."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page_of(fleet: FleetReport, *, has_plots: bool | None = None) -> str:
    """The whole document. `has_plots` None means: where matplotlib is there."""
    can_plot = charts.is_possible() if has_plots is None else has_plots
    jobs = fleet_page.worst_first(fleet.jobs)
    names = words.job_names([job.job for job in jobs])
    anchors = [f"job-{i + 1}" if i < MOST_JOBS_IN_FULL else "" for i in range(len(jobs))]
    is_alone = len(jobs) == 1
    parts: list[Markup | None] = [fleet_page.not_read_part(fleet.not_read)]
    if not is_alone:
        parts.append(fleet_page.fleet_part(fleet, jobs, names, anchors))
    for i, (job, name, anchor) in enumerate(zip(jobs, names, anchors, strict=True)):
        if anchor:
            has_own = can_plot and i < MOST_JOBS_WITH_PLOTS
            parts.append(page.job_part(job, name=name, anchor=anchor, has_plots=has_own, is_alone=is_alone))
    title = f"{names[0]}: {jobs[0].state}" if is_alone else counted(len(jobs), "job")
    return "<!doctype html>\n" + element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="referrer", content="no-referrer"),
            element("link", rel="icon", href="data:,"),
            element("title", f"{title} (lastgood report)"),
            element("style", Markup(style_sheet())),
        ),
        element(
            "body",
            element("a", "To the report", href="#report", class_="skip"),
            element("header", _top(fleet)),
            element("main", *parts, id="report"),
            element("footer", *_footer(len(jobs), can_plot=can_plot)),
        ),
        lang="en",
    )


def _top(fleet: FleetReport) -> Markup:
    made = element("span", "lastgood report, made ", words.instant(fleet.made_at))
    choices = [("system", True), ("light", False), ("dark", False)]
    scheme = element(
        "fieldset",
        element("legend", "Colours"),
        *(
            element(
                "label",
                element("input", type="radio", name="scheme", id=f"scheme-{name}", checked=is_default),
                f" {name}",
            )
            for name, is_default in choices
        ),
    )
    return element("div", made, scheme, class_="top")


def _footer(jobs: int, *, can_plot: bool) -> list[Markup]:
    lines = [
        f"Made by lastgood {__version__} from the journals and checkpoints of {counted(jobs, 'job')}. All times are UTC."
    ]
    if not can_plot:
        lines.append("Without plots: matplotlib is not installed. pip install 'lastgood[plot]' gives them.")
    elif jobs > MOST_JOBS_WITH_PLOTS:
        lines.append(
            f"Plots are drawn for the {MOST_JOBS_WITH_PLOTS} jobs that come first: a report on one job has them."
        )
    if jobs > MOST_JOBS_IN_FULL:
        lines.append(
            f"The {MOST_JOBS_IN_FULL} jobs that come first are here in full, the others have their row: a report on one has all."
        )
    return [element("p", line) for line in lines]
