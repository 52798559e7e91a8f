"""What the plots of the page are made of, on matplotlib's axes. Imports matplotlib when something is drawn."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from lastgood.core.units import duration
from lastgood.report import strips, words
from lastgood.report.course import Course, Point, thinned
from lastgood.report.model import KINDS, AttemptLine, Mark, Span

_ROLES = ("ink", "quiet", "line", "paper", "fault", *KINDS)
STAND_IN: Mapping[str, str] = {role: f"#00{i + 1:02x}fe" for i, role in enumerate(_ROLES)}
"""Colours for drawing, each for a variable of the page."""

_DIGIT_PX = 8.5
_GAP_PX = 8.0
_LEAST_LABEL_PX = 40.0
BESIDE_PX = 90
"""Around a label; and what the labels of the other axis take."""
_MOST_POINTS = 240
_MOST_MARKS = 60
MOST_LINES = 200
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600,
            7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000)  # fmt: skip
"""Steps of an axis of durations that people read without reckoning."""
_FAR_APART = 30.0


def draw_courses(axes: Any, courses: Sequence[Course], begin: float, end: float) -> None:
    """The kept part of each attempt, the lost part, and where the next one fell back to."""
    for kind, width in (("useful", 2.2), ("lost", 2.6)):
        x: list[float] = []
        y: list[float] = []
        for course in courses:
            for at, step in thinned(course.kept if kind == "useful" else course.lost, begin, end, _MOST_POINTS):
                x.append(at)
                y.append(step)
            # A gap: the pen is lifted.
            x.append(math.nan)
            y.append(math.nan)
        axes.plot(x, y, color=STAND_IN[kind], linewidth=width, solid_capstyle="butt", solid_joinstyle="round")
    falls: tuple[list[float], list[float]] = ([], [])
    for one, following in pairwise(courses):
        (at, reached), (later, begun) = one.points[-1], following.points[0]
        falls[0].extend([at, later, later, math.nan])
        falls[1].extend([reached, reached, begun, math.nan])
    axes.plot(*falls, color=STAND_IN["quiet"], linewidth=1, linestyle=(0, (2, 2)))


def are_drawn(count: int) -> bool:
    """True if so many marks on the curve leave it to be seen."""
    return count <= _MOST_MARKS


def draw_saves(axes: Any, saves: Sequence[Point]) -> None:
    """Where it saved, if that can be told apart."""
    if are_drawn(len(saves)):
        axes.plot(
            [at for at, _ in saves],
            [step for _, step in saves],
            "o",
            color=STAND_IN["paper"],
            markeredgecolor=STAND_IN["useful"],
            markersize=5,
            markeredgewidth=1.5,
        )


def draw_faults(axes: Any, marks: Sequence[Mark], courses: Sequence[Course]) -> None:
    """A cross where an attempt was interrupted, at the step that it had reached; many are lines at the lower edge, and
    those that would be a black bar there are left to the strip."""
    seen = [mark for mark in marks if mark.kind == "fault"]
    if len(seen) > MOST_LINES:
        return
    if not are_drawn(len(seen)):
        x = [at for mark in seen for at in (mark.at, mark.at, math.nan)]
        edge = axes.get_xaxis_transform()
        axes.plot(x, [0.0, 0.05, math.nan] * len(seen), color=STAND_IN["fault"], linewidth=0.8, transform=edge)
        return
    ends = {course.attempt: course.points[-1][1] for course in courses}
    axes.plot(
        [mark.at for mark in seen],
        [ends.get(mark.attempt, float(mark.step or 0)) for mark in seen],
        "x",
        color=STAND_IN["fault"],
        markersize=8,
        markeredgewidth=2,
        clip_on=False,
        zorder=5,
    )


def number_attempts(axes: Any, attempts: Sequence[AttemptLine], begin: float, end: float, width_px: int) -> None:
    """The number of each attempt above its begin, where there is room for it: the first, the last, then from the left."""
    px = (width_px - BESIDE_PX) / max(end - begin, 1e-9)
    taken: list[tuple[float, float]] = []
    for line in [attempts[0], attempts[-1], *attempts[1:-1]]:
        left = (line.began - begin) * px
        right = left + _DIGIT_PX * len(f"#{line.attempt}") + _GAP_PX
        if any(left < other_right and other_left < right for other_left, other_right in taken):
            continue
        taken.append((left, right))
        axes.text(
            line.began,
            1.01,
            f"#{line.attempt}",
            transform=axes.get_xaxis_transform(),
            va="bottom",
            color=STAND_IN["quiet"],
        )


def draw_strip(axes: Any, spans: Sequence[Span], begin: float, end: float) -> None:
    """What the time went to; one shape for each kind."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    for kind, boxes in strips.boxes(spans, begin, end).items():
        corners: list[tuple[float, float]] = []
        for x, y, width, height in boxes:
            left, right = begin + x * (end - begin), begin + (x + width) * (end - begin)
            corners += [(left, y), (right, y), (right, y + height), (left, y + height), (left, y)]
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(boxes)
        axes.add_patch(PathPatch(Path(corners, codes), facecolor=STAND_IN[kind], linewidth=0))
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)


def draw_points(axes: Any, points: Sequence[Point], role: str, begin: float, end: float, room: int) -> None:
    kept = thinned(list(points), begin, end, room)
    axes.plot(
        [at for at, _ in kept],
        [value for _, value in kept],
        "o",
        color=STAND_IN[role],
        markersize=5 if are_drawn(len(kept)) else 3,
        zorder=4,
    )


def set_time_axis(axes: Any, begin: float, end: float, width_px: int) -> None:
    """Clock times in UTC, few enough to stand apart."""
    ticks, labels, below = clock_ticks(begin, end, width_px - BESIDE_PX)
    margin = 0.01 * (end - begin)
    axes.set_xlim(begin - margin, end + margin)
    axes.set_xticks(ticks, labels)
    axes.set_xlabel(below)


_DAY_S = 86400
_CLOCK_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
                *(days * _DAY_S for days in (1, 2, 7, 14, 30, 90, 365, 1825, 3650)))  # fmt: skip


def clock_ticks(begin: float, end: float, room_px: float) -> tuple[list[float], list[str], str]:
    """Where to write which times, as many as there is room for, and what stands for them all.

    >>> clock_ticks(0, 3600, 220)
    ([0, 1800, 3600], ['00:00', '00:30', '01:00'], 'UTC, 1970-01-01')
    """
    days = [words.written(at, "%Y-%m-%d") for at in (begin, end)]
    ticks: list[float] = []
    labels: list[str] = []
    for step in (*_CLOCK_STEPS, end - begin):
        if (end - begin) / step > room_px / _LEAST_LABEL_PX:
            continue
        first = math.ceil(begin / step - 1e-9)
        ticks = [round(i * step, 1) for i in range(first, math.floor(end / step + 1e-9) + 1)]
        labels = [_clock(at, step, days) for at in ticks]
        if sum(_DIGIT_PX * len(label) + 2 * _GAP_PX for label in labels) <= room_px:
            break
    return ticks, labels, f"UTC, {days[0]}" + (f" to {days[1]}" if days[0] != days[1] else "")


def _clock(at: float, step: float, days: Sequence[str]) -> str:
    if step >= _DAY_S:
        return words.written(at, "%m-%d" if days[0][:4] == days[1][:4] else "%Y-%m-%d")
    if days[0] != days[1]:
        return words.written(at, "%d. %H:%M")
    if step >= 60:
        return words.written(at, "%H:%M")
    return words.written(at, "%H:%M:%S") + (f"{at % 1:.1f}"[1:] if step < 1 else "")


def set_seconds_axis(axes: Any, values: Sequence[float]) -> None:
    """Durations with their units, from nothing up; where the greatest is far above the middle one, by powers."""
    known = sorted(value for value in values if value > 0)
    if not known:
        return
    middle, most = known[len(known) // 2], known[-1]
    if most > _FAR_APART * middle:
        axes.set_yscale("log")
        axes.set_ylim(known[0] / 1.5, most * 1.5)
        ticks = [tick for tick in _SECONDS if known[0] / 1.5 <= tick <= most * 1.5]
        ticks = ticks[:: max(len(ticks) // 4, 1)]
        axes.set_yticks([], minor=True)
    else:
        step = next((one for one in _SECONDS if most * 1.1 / one <= 4), most)
        axes.set_ylim(0, most * 1.1)
        ticks = [i * step for i in range(int(most * 1.1 / step) + 1)]
    axes.set_yticks(
        ticks,
        [
            "0" if tick == 0 else duration(tick).removesuffix(" 0 s").removesuffix(" 0 min").removesuffix(" 0 h")
            for tick in ticks
        ],
    )
