"""The time that is lost, over the interval: a picture for people. Draws with matplotlib, which is imported for it."""

import io
import math
from pathlib import Path

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import duration
from lastgood.plan.situation import Situation
from lastgood.plan.solve import Solved
from lastgood.plan.ways import way_efficiency
from lastgood.store import durable

FORMATS = (".png", ".svg")
_POINTS = 200
_SIMULATED = 9
_FAILURES = 4000
"""For each point."""


def draw(path: str, s: Situation, solved: Solved) -> None:
    """Write the picture. Raises UsageError for another kind of file or without matplotlib, StorageError and
    PermissionDeniedError where it cannot be written."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise UsageError(f"--plot {path}: neither .png nor .svg", remedy="give a name that ends with one of them")
    picture = _picture(s, solved, target.suffix[1:])
    with durable.explained("write the plot", path):
        durable.write_file(target, picture)


def _picture(s: Situation, solved: Solved, kind: str) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "--plot needs matplotlib, which is not installed", remedy="pip install 'lastgood[plot]'"
        ) from None
    low, high = _range(solved)
    intervals = [low * (high / low) ** (i / (_POINTS - 1)) for i in range(_POINTS)]
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    curves = [(0.5, "failures half as often", ":"), (1.0, "as planned", "-"), (2.0, "failures twice as often", "--")]
    for factor, label, style in curves:
        truth = s.with_rate(factor)
        curve = [100 * (1 - way_efficiency(solved.way, one, truth)) for one in intervals]
        axes.plot(intervals, curve, style, label=label, color="tab:blue" if factor == 1 else "0.5")
    _add_simulation(axes, s, solved, low, high)
    lost = 100 * (1 - solved.efficiency)
    axes.plot(
        [solved.interval_s], [lost], "o", color="tab:red", label=f"plan: {duration(solved.interval_s)}, {lost:.1f} %"
    )
    for bound in solved.bounds:
        if low < bound.interval_s < high:
            axes.axvline(bound.interval_s, color="tab:orange", linewidth=0.8)
            axes.text(
                bound.interval_s, 0.02, f" {bound.name}", transform=axes.get_xaxis_transform(), va="bottom", rotation=90
            )
    axes.set_xscale("log")
    ticks = [t for t in _TICKS_S if low <= t <= high]
    axes.set_xticks(ticks, [duration(t).removesuffix(" 0 s").removesuffix(" 0 min") for t in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)
    axes.set_ylim(0, min(100.0, max(4 * lost, 1.0)))
    axes.set_xlabel("interval: work between two saves")
    axes.set_ylabel("time lost to saves, repeated work and waiting (%)")
    axes.set_title(
        f"stall {duration(solved.way.stall_s)}, write {duration(solved.way.write_s)}, "
        f"interrupted once in {duration(s.mtti_s)}"
    )
    axes.legend(framealpha=1)
    axes.grid(alpha=0.3)
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=120)
    return out.getvalue()


_TICKS_S = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200, 18000, 36000, 86400, 172800, 432000, 864000)


def _range(solved: Solved) -> tuple[float, float]:
    middle = math.sqrt(max(solved.interval_s, 1e-3) * max(solved.optimum_s, solved.interval_s / 10, 1e-3))
    return middle / 12, middle * 12


def _add_simulation(axes: "object", s: Situation, solved: Solved, low: float, high: float) -> None:
    from lastgood.plan.simulate import simulate
    from lastgood.plan.walking import walk_of

    walk = walk_of(solved.way, solved.interval_s, s)
    at = [low * (high / low) ** ((i + 0.5) / _SIMULATED) for i in range(_SIMULATED)]
    found = [simulate(msgspec.structs.replace(walk, interval_s=one), failures=_FAILURES) for one in at]
    axes.errorbar(  # type: ignore[attr-defined]  # matplotlib has no types here
        at,
        [100 * (1 - one.efficiency) for one in found],
        yerr=[100 * one.efficiency_error for one in found],
        fmt="x",
        color="black",
        label="simulated (99 %)",
        capsize=3,
    )
