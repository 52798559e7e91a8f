"""How each attempt went up in steps over time, as far as its journal tells, and which part of that was lost. Pure."""

from bisect import bisect_right
from collections import defaultdict

import msgspec

from lastgood.report.model import AttemptLine, Report, Save

Point = tuple[float, float]
"""When, and at which step."""

_WORK = ("useful", "lost", "saving")


class Course(msgspec.Struct, frozen=True):
    attempt: int
    kept: list[Point]
    """What the next attempt did not have to do again; empty if it had to do all again."""
    lost: list[Point]
    """What it did beyond that; begins where `kept` ends. Empty if nothing was lost."""

    @property
    def points(self) -> list[Point]:
        return self.kept + self.lost[1:] if self.kept else self.lost


def courses_of(report: Report) -> list[Course]:
    """One for each attempt that is known to have begun after some step, oldest first."""
    work: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for span in report.spans:
        if span.attempt is not None and span.kind in _WORK:
            work[span.attempt].append((span.begin, span.end))
    saves: dict[int, list[Save]] = defaultdict(list)
    for save in report.saves:
        saves[save.attempt].append(save)
    found = []
    for line in report.attempts:
        if line.from_step is not None and line.reached_step is not None and work[line.attempt]:
            spans = work[line.attempt]
            found.append(_course(line, saves[line.attempt], spans[0][0], spans[-1][1]))
    return found


def _course(line: AttemptLine, saves: list[Save], begin: float, end: float) -> Course:
    first, last = float(line.from_step or 0), float(line.reached_step or 0)
    points = [(begin, first)]
    for save in saves:
        # A commit is later than the step that it holds by the time that it took to write.
        at = min(max(save.at - (save.write_s or 0.0), points[-1][0]), end)
        if points[-1][1] < save.step <= last:
            points.append((at, float(save.step)))
    if end > points[-1][0] or last > points[-1][1]:
        points.append((end, last))
    if not line.lost_steps:
        return Course(line.attempt, points, [])
    kept_step = last - line.lost_steps
    if kept_step <= first:
        return Course(line.attempt, [], points)
    turn = _point_at(points, kept_step)
    kept = [point for point in points if point[1] <= kept_step]
    if kept[-1] != turn:
        kept.append(turn)
    return Course(line.attempt, kept, [turn, *(point for point in points if point[1] > kept_step)])


def _point_at(points: list[Point], step: float) -> Point:
    """Where the course passes a step, on the straight line between the points around it."""
    i = bisect_right([point[1] for point in points], step)
    if points[i - 1][1] == step or i == len(points):
        return points[i - 1]
    (at, low), (later, high) = points[i - 1], points[i]
    return at + (later - at) * (step - low) / (high - low), step


def thinned(points: list[Point], begin: float, end: float, most: int) -> list[Point]:
    """No more than `most` of them, ordered by time: those that fall on the same place of a drawing become their lowest and
    their highest, so that nothing which stands out is left out."""
    if len(points) <= most:
        return points
    places: dict[int, list[Point]] = defaultdict(list)
    for point in points:
        places[int((point[0] - begin) / max(end - begin, 1e-9) * (most // 2 - 1))].append(point)
    kept: list[Point] = []
    for _, group in sorted(places.items()):
        low, high = min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])
        kept += sorted({low, high})
    return kept
