"""Several jobs on one page: a row for each with a small time line, worst first, and totals. Pure."""

from collections import Counter
from collections.abc import Sequence

from lastgood.core.quoting import shown
from lastgood.core.units import duration
from lastgood.report import strips, words
from lastgood.report.advice import advice_on, last_good_of
from lastgood.report.markup import Markup, element, table, together
from lastgood.report.model import MEANINGS, FleetReport, NotRead, Report
from lastgood.report.page_tables import outcomes, two_lines
from lastgood.report.page_time import swatch, where_time_went
from lastgood.report.words import counted, value

_LEAST_SHARE = 0.25
"""A job that took less of the common time than this would be too small to see in it."""
_ORDER = ("given up", "stopped, unfinished", "running without its launcher", "running", "not started yet", "finished")


def worst_first(jobs: Sequence[Report]) -> list[Report]:
    """Those that need somebody, then by time lost."""

    def weight(report: Report) -> tuple[bool, int, float]:
        place = _ORDER.index(report.state) if report.state in _ORDER else 0
        needs_now = any(one.urgency == "now" for one in advice_on(report))
        return (not needs_now, place if needs_now else 0, -report.lost_s)

    return sorted(jobs, key=weight)


def fleet_part(fleet: FleetReport, jobs: Sequence[Report], names: Sequence[str], anchors: Sequence[str]) -> Markup:
    """`jobs` in the order of the page, with their names and where they stand in it ("": they do not)."""
    lost_steps, lost_s = sum(job.lost_steps for job in jobs), sum(job.lost_s for job in jobs)
    attempts = sum(len(job.attempts) for job in jobs)
    needing = [job for job in jobs if advice_on(job)]
    states = Counter(job.state.partition(",")[0] for job in jobs)
    verdict = element(
        "p",
        element(
            "b", f"{counted(len(jobs), 'job')}: ", ", ".join(f"{n:,} {state}" for state, n in states.items()), ". "
        ),
        f"{counted(len(needing), 'needs', 'need')} somebody. " if needing else "Nothing to do. ",
        f"Lost in all: {counted(lost_steps, 'step')}, {duration(lost_s)}.",
        class_="verdict",
    )
    return together(
        [
            element("h1", f"Report on {counted(len(jobs), 'job')}"),
            verdict,
            _cards(fleet, lost_steps, lost_s, attempts, needing),
            element("h2", "Jobs, worst first"),
            _rows(fleet, jobs, names, anchors, lost_steps, lost_s, attempts),
            where_time_went(
                fleet.shares,
                fleet.ettr,
                title="Where the time went, all jobs",
                caption="Each second counts once for each job",
                prefix="fleet-seconds-",
            ),
            outcomes(fleet.outcomes),
        ]
    )


def _cards(fleet: FleetReport, lost_steps: int, lost_s: float, attempts: int, needing: Sequence[Report]) -> Markup:
    cards = [
        (
            "Lost",
            value(lost_steps, counted(lost_steps, "step"), "fleet-lost-steps"),
            value(lost_s, duration(lost_s), "fleet-lost-s"),
        ),
        ("Attempts", value(attempts, f"{attempts:,}", "fleet-attempts"), None),
        ("Jobs that need somebody", value(len(needing), f"{len(needing):,}", "fleet-to-do"), None),
    ]
    if fleet.ettr is not None:
        share = value(fleet.ettr.share, words.percent(fleet.ettr.share), "fleet-ettr")
        cards.insert(0, ("Useful share (ETTR)", share, None))
    return element(
        "dl",
        *(
            element(
                "div",
                element("dt", name),
                element("dd", figure),
                element("dd", more, class_="small") if more else None,
                class_="card",
            )
            for name, figure, more in cards
        ),
        class_="cards",
    )


def _rows(
    fleet: FleetReport,
    jobs: Sequence[Report],
    names: Sequence[str],
    anchors: Sequence[str],
    lost_steps: int,
    lost_s: float,
    attempts: int,
) -> Markup:
    ran = [job for job in jobs if job.spans]
    begin = min((job.spans[0].begin for job in ran), default=0.0)
    end = max((job.spans[-1].end for job in ran), default=0.0)
    is_common = all(job.seconds >= _LEAST_SHARE * (end - begin) for job in ran)
    rows: list[Sequence[object]] = []
    for job, name, anchor in zip(jobs, names, anchors, strict=True):
        good = last_good_of(job)
        own = (begin, end) if is_common or not job.spans else (job.spans[0].begin, job.spans[-1].end)
        rows.append(
            [
                element("a", name, href=f"#{anchor}") if anchor else name,
                two_lines(
                    element("span", job.state, class_=f"nowrap {words.state_class(job)}"),
                    f"{len(advice)} to do" if (advice := advice_on(job)) else "",
                ),
                _small_strip(job, name, own) if job.spans else words.NOTHING,
                value(job.ettr.share, words.percent(job.ettr.share), "job-ettr") if job.ettr else words.NOTHING,
                two_lines(
                    value(job.lost_steps, f"{job.lost_steps:,}", "job-lost-steps"),
                    duration(job.lost_s) if job.lost_s else "",
                ),
                value(len(job.attempts), f"{len(job.attempts):,}", "job-attempts"),
                "none"
                if good is None
                else element("div", two_lines(f"step {good.step:,}", f"{words.span(good.age_s)} old"), class_="nowrap"),
            ]
        )
    share = words.percent(fleet.ettr.share) if fleet.ettr else ""
    rows.append(["All", "", "", share, two_lines(f"{lost_steps:,}", duration(lost_s)), f"{attempts:,}", ""])
    head = ["Job", "State", "Time line", "ETTR", "Lost steps", "Attempts", "Last good"]
    axis = element("div", words.instant(begin), words.instant(end), class_="axis")
    if is_common:
        caption = "All time lines have one axis; a line stands where an attempt was interrupted"
    else:
        caption = "Each time line is over the job's own time; a line stands where an attempt was interrupted"
    return together(
        [
            table(caption, head, rows, numbers=(3, 4, 5), data_of="jobs"),
            axis if is_common and ran else None,
            _key(jobs),
        ]
    )


def _key(jobs: Sequence[Report]) -> Markup:
    kinds = [kind for kind in MEANINGS if any(share.seconds > 0 for job in jobs if (share := job.share_of(kind)))]
    return element(
        "ul",
        *(element("li", swatch(kind), kind) for kind in kinds),
        class_="key",
    )


def _small_strip(job: Report, name: str, span: tuple[float, float]) -> Markup:
    marks = [mark.at for mark in job.marks if mark.kind == "fault"]
    label = f"Time line of {name}: {counted(len(job.attempts), 'attempt')}, {counted(len(marks), 'interruption')}"
    return strips.strip(job.spans, marks, *span, label=label, is_small=True)


def not_read_part(not_read: Sequence[NotRead]) -> Markup | None:
    """Jobs that were named, and of which the page says nothing."""
    if not not_read:
        return None
    items = [
        element(
            "li", element("code", shown(one.job)), f": {one.error}", f" To do: {one.remedy}" if one.remedy else None
        )
        for one in not_read
    ]
    return element(
        "div",
        element("p", element("b", f"Not reported on: {counted(len(not_read), 'job')}")),
        element("ul", *items),
        class_="todo bad",
        data_is="not-read",
    )
