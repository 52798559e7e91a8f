"""A plan for a person: one screen, like a colleague's advice, each number with its unit and where it is from."""

import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lastgood.cli import output
from lastgood.core.units import byte_size, duration
from lastgood.plan.quantities import rounded

if TYPE_CHECKING:
    from lastgood.plan.document import PlanAnswer, PlannedCandidate, PlannedMechanism
    from lastgood.plan.situation import Situation

_UNIT = re.compile(r"(\d) (?=(?:ms|s|min|h|d|%|[kMGT]?B)\b|%)")

_LABEL = 10
_NOTHING = 0.05
"""Below this share of kept work there is no interval to recommend."""

_EXACT = "I e^(-(L+R)/M) / ((M+D)(e^(P/M) - 1))"


def text_of(plan: "PlanAnswer", s: "Situation") -> str:
    lines = [*_headline(plan), "", *_reasons(plan, s), *_inputs(plan, s), "", *_costs(plan, s), ""]
    lines += _end(plan, s)
    said = ""
    for one in plan.mechanisms:
        lines += _mechanism("" if one.verdict == said else one.verdict, one)
        said = one.verdict
    lines += ["", *_sensitivity(plan)]
    return "\n".join(line.rstrip() for line in lines)


def _headline(plan: "PlanAnswer") -> list[str]:
    lost = 100 * (1 - plan.cost.effective_share)
    error = "" if plan.simulation is None else f" (simulated, +/- {100 * plan.simulation.error:.1g})"
    if plan.cost.effective_share < _NOTHING:
        text = f"This job hardly gets on: {lost:.1f} % of its time is lost{error}, whatever the interval."
    elif plan.decided == "stated":
        text = f"Saving every {rounded(plan.interval_s)}, {plan.way}, loses {lost:.1f} % of the time{error}."
    else:
        text = f"Save every {rounded(plan.interval_s)}, {plan.way}. That loses {lost:.1f} % of the time{error}."
    return output.wrap(text)


def _reasons(plan: "PlanAnswer", s: "Situation") -> list[str]:
    said = f"{plan.decided}: {plan.reason}" if plan.decided not in ("stated", "simulation") else plan.reason
    lines = _row("because", said)
    lines += _row("", "formulas: " + _list(plan.candidates))
    lines += _row("", "bounds: " + _list(plan.bounds))
    lines += _row("how", _how(plan))
    if plan.simulation is not None:
        formula = f"{100 * (1 - plan.simulation.formula_share):.1f} %"
        lines += _row(
            "simulated", f"{plan.simulation.why}; {plan.simulation.failures:,} failures; the formula: {formula}"
        )
    for doubt in plan.doubts:
        lines += _row("but", doubt)
    return lines


def _how(plan: "PlanAnswer") -> str:
    """How the job comes to the interval."""
    if plan.submit.is_auto_enough:
        return f'every="auto" comes to it, told LASTGOOD_MTTI={plan.failures.mtti_s:.0f}s'
    minutes = plan.interval_s / 60
    every = f"{minutes:.0f}min" if minutes >= 10 else f"{plan.interval_s:.0f}s"
    return f'Run(every="{every}"): every="auto" would not come to it by itself'


def _list(candidates: "Sequence[PlannedCandidate]") -> str:
    return ", ".join(f"{one.name} {duration(one.interval_s).removesuffix(' 0 s')}" for one in candidates)


def _inputs(plan: "PlanAnswer", s: "Situation") -> list[str]:
    size = f"{byte_size(plan.save.bytes)}, " if plan.save.bytes else ""
    save = f"{size}stops the loop for {rounded(plan.save.stall_s)}, counts after {rounded(plan.save.write_s)}"
    if s.local_write_s is not None:
        save += f", on the node's own disk after {rounded(s.local_write_s)}"
    lines = _row("save", f"{save} ({plan.save.source})")
    lines += _row("failures", f"once in {rounded(plan.failures.mtti_s)}: {_rate(plan)}")
    parts = [
        ("seen after", s.detection_s, "detection"),
        ("queue", s.queue_s, "queue"),
        ("restart", s.restart_s, "restart"),
    ]
    assumed = plan.recovery.assumed
    said = [f"{name} {rounded(seconds)}" + (" (assumed)" if key in assumed else "") for name, seconds, key in parts]
    lines += _row("recovery", ", ".join(said) + "".join(f"; {text}" for text in assumed if ":" in text))
    return lines


def _rate(plan: "PlanAnswer") -> str:
    f = plan.failures
    parts = []
    if f.per_1000_node_days:
        nodes = f"{plan.nodes:,} node{'s' if plan.nodes > 1 else ''}"
        parts.append(f"{f.per_1000_node_days:.3g} per 1,000 node-days on {nodes}")
    if f.others_per_day:
        parts.append(f"{f.others_per_day:.2g} a day of other kinds")
    return f"{' and '.join(parts)} ({f.source})" if parts else f.source


def _costs(plan: "PlanAnswer", s: "Situation") -> list[str]:
    cost = plan.cost
    rework = rounded(cost.rework_s) + _gpu_hours(cost.rework_gpu_hours)
    rework += f", {cost.rework_steps:,.0f} steps" if cost.rework_steps is not None else ""
    week = f"{plan.failures.per_week:.2g} failures, {rounded(cost.lost_per_week_s)}"
    week += _gpu_hours(cost.lost_per_week_gpu_hours)
    week += f", {cost.rework_per_week_steps:,.0f} steps" if cost.rework_per_week_steps is not None else ""
    has_promotion = "local" in plan.way or "memory" in plan.way
    redo = "two levels: half an interval, lag" if has_promotion else "I/2 + L"
    source = "simulated" if plan.simulation is not None else "two levels" if has_promotion else _EXACT
    each = "simulated" if plan.simulation is not None else "with detection, queue, restart"
    rows = [
        ("to do again", rework, redo),
        ("each costs", rounded(cost.lost_per_failure_s), each),
        ("a week", week, "7 d / (M + D)"),
        ("saves", f"{100 * cost.save_share:.2g} %", "C / P"),
        ("ETTR", f"{cost.ettr:.3f}", f"(1 - (u0 + {'redo' if has_promotion else 'T/2'})/M) / (1 + w/T)"),
        ("kept work", f"{100 * cost.effective_share:.1f} %", source),
    ]
    lines = []
    for i, (name, value, formula) in enumerate(rows):
        label = "costs" if i == 0 else ""
        line = f"{label:<{_LABEL}}{name:<13}{value}"
        # The formula stands to the right where it fits.
        room = output.WIDTH - len(formula)
        lines.append(f"{line:<{max(room, len(line) + 2)}}{formula}" if len(line) + 2 <= room else line)
        if name == "ETTR":
            lines.append(f"= {cost.ettr_formula}".rjust(output.WIDTH))
    return lines


def _gpu_hours(hours: float | None) -> str:
    return "" if hours is None else f", {hours:,.0f} GPU-h" if hours >= 10 else f", {hours:.2g} GPU-h"


def _end(plan: "PlanAnswer", s: "Situation") -> list[str]:
    if plan.run_s is None or plan.wall_s is None or s.work_s is None:
        return []
    runs = f" in about {plan.segments:,} run{'s' if plan.segments != 1 else ''}" if plan.segments is not None else ""
    runs += f" of {rounded(s.limit_s)} at most" if s.limit_s is not None else ""
    queue = f", {rounded(plan.wall_s)} with the queue" if s.queue_s else ""
    return _row("the work", f"{rounded(s.work_s)} of it take {rounded(plan.run_s)}{runs}{queue}")


def _mechanism(label: str, one: "PlannedMechanism") -> list[str]:
    setting = f" ({one.setting})" if one.setting else ""
    return _row(label, f"{one.name}{setting}: {one.reason}")


def _sensitivity(plan: "PlanAnswer") -> list[str]:
    factors = [one.factor for one in plan.wrong_rates]
    # Simulating each would take its time.
    heading = "lost if really" if plan.simulation is None else "lost if really, by formulas"
    heads = [f"1/{1 / factor:.0f}" if factor < 1 else f"{factor:.0f}x" for factor in factors]
    return [
        f"{heading:<30}" + "".join(f"{head:>10}" for head in heads),
        _wrong("failures: planned interval", [one.lost_as_planned for one in plan.wrong_rates]),
        _wrong("          best interval", [one.lost_at_best for one in plan.wrong_rates]),
        _wrong("saves:    planned interval", [one.lost_as_planned for one in plan.wrong_saves]),
        _wrong("          best interval", [one.lost_at_best for one in plan.wrong_saves]),
    ]


def _wrong(label: str, shares: list[float]) -> str:
    return f"{label:<30}" + "".join(f"{f'{100 * share:.1f} %':>10}" for share in shares)


def _row(label: str, text: str) -> list[str]:
    # Not between a number and its unit, nor within the name of an option.
    held = _UNIT.sub("\\1\xa0", output.plain(text))
    lines = textwrap.wrap(held, output.WIDTH - _LABEL, break_on_hyphens=False, break_long_words=True)
    first, *others = [line.replace("\xa0", " ") for line in lines] or [""]
    return [f"{label:<{_LABEL}}{first}", *(" " * _LABEL + other for other in others)]
