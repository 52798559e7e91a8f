"""The figures of an accounting for people, within 80 columns, and as CSV."""

import csv
import io
import math
from collections.abc import Sequence

from lastgood.cli import output
from lastgood.core.reliability import FailureRate, mtti_of_nodes_s
from lastgood.core.units import duration
from lastgood.plan.history.answer import AccountingAnswer, GroupFigures

_MOST_GROUPS = 12
_MOST_NODES = 8
_MOST_CODES = 6
_MOST_BURSTS = 4
_EXAMPLE_NODES = 16

_CSV = (
    *("kind", "name", "runs", "failures", "node_days", "gpu_hours"),
    *("per_1000_node_days", "low", "high", "lost_node_hours", "lost_gpu_hours"),
)


def text_of(answer: AccountingAnswer) -> str:
    blocks = [_summary(answer), _endings(answer)]
    blocks += [_groups("PARTITION", answer.partitions), _groups("GPU", answer.gpu_types)]
    blocks += [_nodes(answer), _trend(answer), _codes(answer), _bursts(answer), _remarks(answer)]
    return "\n\n".join(block for block in blocks if block)


def csv_of(answer: AccountingAnswer) -> str:
    """One row for all, and one for each ending, partition, type of GPU, node and period."""
    rows = [
        _row(
            "all", "", answer.runs, answer.rate.failures if answer.rate else 0, answer.node_days, answer.gpu_hours,
            answer.rate, answer.lost_node_hours, answer.lost_gpu_hours,
        )
    ]  # fmt: skip
    for e in answer.endings:
        failures = e.rate.failures if e.rate else None
        rows.append(
            _row("ending", e.name, e.runs, failures, e.node_hours / 24, e.gpu_hours, e.rate, e.lost_node_hours, e.lost_gpu_hours)
        )  # fmt: skip
    for kind, groups in (("partition", answer.partitions), ("gpu", answer.gpu_types)):
        rows += [
            _row(kind, g.name, g.runs, g.failures, g.node_days, g.gpu_hours, g.rate, g.lost_node_hours, g.lost_gpu_hours)
            for g in groups
        ]  # fmt: skip
    rows += [_row("node", n.name, None, n.failures, n.node_days, None, n.rate, None, None) for n in answer.nodes]
    rows += [_row("period", p.begin, None, p.failures, p.node_days, None, p.rate, p.lost_node_hours, None) for p in answer.trend]  # fmt: skip
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV)
    writer.writerows(rows)
    return text.getvalue().removesuffix("\n")


def _row(
    kind: str,
    name: str,
    runs: int | None,
    failures: int | None,
    node_days: float,
    gpu_hours: float | None,
    rate: FailureRate | None,
    lost_node_hours: float | None,
    lost_gpu_hours: float | None,
) -> list[object]:
    """None is an empty cell."""
    interval = [None] * 3 if rate is None else [rate.per_1000_node_days, rate.low, rate.high]
    return [kind, output.plain(name), runs, failures, node_days, gpu_hours, *interval, lost_node_hours, lost_gpu_hours]


def _summary(answer: AccountingAnswer) -> str:
    a = answer.attempts
    span = f"{answer.begin.replace('T', ' ')} to {answer.end.replace('T', ' ')}" if answer.begin else ""
    again = f"; {a.restarted_jobs:,} ran again, one of them {a.most:,} times" if a.restarted_jobs else ""
    lines = [
        ("source", answer.source),
        ("time", span),
        ("runs", f"{answer.runs:,} of {a.jobs:,} jobs{again}" if answer.runs else "no job ran in this time"),
    ]
    if answer.runs:
        lines += [
            ("exposed", f"{_number(answer.node_days)} node-days, {_number(answer.gpu_hours)} GPU-hours"),
            ("rate", _rate_told(answer)),
            ("", _of_a_job(answer)),
            ("lost", _lost_told(answer)),
            ("restarts", _restarts_told(answer)),
        ]
    shown: list[str] = []
    for name, text in lines:
        if text:
            first, *others = output.wrap(text, output.WIDTH - 10)
            shown += [f"{name:<10}{first}", *(" " * 10 + other for other in others)]
    return "\n".join(shown)


def _rate_told(answer: AccountingAnswer) -> str:
    if answer.rate is None:
        return "nothing ran for any time"
    events = sum(e.events for e in answer.endings if e.is_failure)
    together = f", in {events:,} events" if events != answer.rate.failures else ""
    return f"{_interval(answer.rate)} failures per 1,000 node-days: {answer.rate.failures:,}{together}"


def _of_a_job(answer: AccountingAnswer) -> str:
    if answer.rate is None or not answer.rate.failures:
        return ""
    mean = duration(mtti_of_nodes_s(_EXAMPLE_NODES, answer.rate.per_1000_node_days))
    text = f"a job on {_EXAMPLE_NODES} nodes fails each {mean}, on average"
    machine = answer.machine_rate
    if machine is not None and 0 < machine.failures < answer.rate.failures:
        text += f"; of the machine alone {_interval(machine)}"
    return text


def _lost_told(answer: AccountingAnswer) -> str:
    share = answer.lost_node_hours / (24 * answer.node_days) if answer.node_days else 0.0
    return (
        f"{_number(answer.lost_node_hours)} node-hours, {_number(answer.lost_gpu_hours)} GPU-hours "
        f"({share:.2%} of what ran), if {answer.assumption}"
    )


def _restarts_told(answer: AccountingAnswer) -> str:
    a = answer.attempts
    if not a.failures:
        return ""
    text = f"after {a.failures_restarted:,} of {a.failures:,} failed runs the job ran again"
    if a.wait_median_s is not None and a.wait_p90_s is not None:
        text += f", {duration(a.wait_median_s)} later (median; nine of ten within {duration(a.wait_p90_s)})"
    return text


def _endings(answer: AccountingAnswer) -> str:
    rows = [
        [
            e.name,
            f"{e.runs:,}",
            f"{e.events:,}" if e.events != e.runs else "",
            _number(e.node_hours),
            _number(e.lost_node_hours) if e.is_failure else "",
            _interval(e.rate) if e.rate else "",
        ]
        for e in answer.endings
    ]
    head = ["HOW RUNS ENDED", "RUNS", "EVENTS", "NODE-HOURS", "LOST", "PER 1,000 NODE-DAYS"]
    return output.table(head, rows, right=[1, 2, 3, 4]) if rows else ""


def _groups(head: str, groups: Sequence[GroupFigures]) -> str:
    if not groups:
        return ""
    rows = [
        [
            output.shorten(g.name, 18),
            f"{g.runs:,}",
            _number(g.node_days),
            f"{g.failures:,}",
            _interval(g.rate) + _causes(g) if g.rate else "",
        ]
        for g in groups[:_MOST_GROUPS]
    ]
    table = output.table([head, "RUNS", "NODE-DAYS", "FAILURES", "PER 1,000 NODE-DAYS"], rows, right=[1, 2, 3])
    return table + _more(len(groups), _MOST_GROUPS)


def _causes(group: GroupFigures) -> str:
    if len(group.causes) < 2:
        return f", {next(iter(group.causes))}" if group.causes else ""
    return "; " + ", ".join(f"{count:,} {name}" for name, count in group.causes.items())


def _nodes(answer: AccountingAnswer) -> str:
    """Only of nodes that luck does not explain: the worst of a thousand equal nodes looks bad, too."""
    if not answer.nodes:
        return ""
    suspects = [node for node in answer.nodes if node.is_suspect]
    if not suspects:
        worst = answer.nodes[0]
        text = (
            f"No node fails more often than luck explains. The worst: {worst.name} with {worst.failures} where "
            f"{worst.expected:.2g} would be expected; the chance that some node fails so often is {_chance(worst.chance)}."
        )
        return "\n".join(output.wrap(text))
    rows = [
        [output.shorten(n.name, 24), str(n.failures), f"{n.expected:.2g}", _number(n.node_days), _chance(n.chance)]
        for n in suspects[:_MOST_NODES]
    ]
    table = output.table(["SUSPECT NODE", "FAILURES", "EXPECTED", "NODE-DAYS", "CHANCE OF LUCK"], rows, right=[1, 2, 3])
    return table + _more(len(suspects), _MOST_NODES)


def _chance(chance: float) -> str:
    if chance < 1e-4:
        return "less than 0.01 %"
    return f"{100 * chance:.2g} %" if chance < 0.995 else "over 99 %"


def _trend(answer: AccountingAnswer) -> str:
    if len(answer.trend) < 2:
        return ""
    rows = [
        [
            p.begin,
            _number(p.node_days),
            f"{p.failures:,}",
            _number(p.lost_node_hours),
            _interval(p.rate) if p.rate else "",
        ]
        for p in answer.trend
    ]
    return output.table(["FROM", "NODE-DAYS", "FAILURES", "LOST NODE-H", "PER 1,000 NODE-DAYS"], rows, right=[1, 2, 3])


def _codes(answer: AccountingAnswer) -> str:
    if not answer.exit_codes:
        return ""
    rows = [
        [c.exit_code, f"{c.runs:,}", f"{c.events:,}", _number(c.node_hours), _code_told(c.exit_code)]
        for c in answer.exit_codes[:_MOST_CODES]
    ]
    table = output.table(["FAILED WITH", "RUNS", "EVENTS", "NODE-HOURS", "WHICH CAN BE"], rows, right=[1, 2, 3])
    return table + _more(len(answer.exit_codes), _MOST_CODES)


def _code_told(text: str) -> str:
    from lastgood.core.signals import signal_name
    from lastgood.schedulers.slurm_text import parse_exit

    shown = parse_exit(text)
    if shown is None:
        return ""
    code, signal = shown
    if signal:
        return f"ended by {signal_name(signal)}"
    if 1 < code < 32:
        return f"exit code {code}, or {code + 128}: ended by {signal_name(code)}"
    return f"exit code {code}"


def _bursts(answer: AccountingAnswer) -> str:
    if not answer.bursts:
        return ""
    rows = [[output.shorten(b.of, 40), f"{b.runs:,}", b.ending] for b in answer.bursts[:_MOST_BURSTS]]
    table = output.table(["BURST (ONE EVENT)", "RUNS", "OF LESS THAN A MINUTE EACH"], rows, right=[1])
    return table + _more(len(answer.bursts), _MOST_BURSTS)


def _remarks(answer: AccountingAnswer) -> str:
    lines = []
    for found in answer.not_understood:
        lines += output.wrap(f"not counted: {found.rows:,} row{'s' * (found.rows > 1)}, {found.what}", indent="  ")
        for example in found.examples:
            lines += output.wrap("  " + example, indent="    ")
    for what in answer.notes:
        lines += output.wrap(f"note: {what}", indent="  ")
    return "\n".join(lines)


def _more(count: int, most: int) -> str:
    return f"\n... and {count - most:,} more: --json has them" if count > most else ""


def _interval(rate: FailureRate) -> str:
    return f"{_digits(rate.per_1000_node_days)} ({_digits(rate.low)} to {_digits(rate.high)})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _number(value: float) -> str:
    """
    >>> _number(1234567.8), _number(12.34), _number(0.0123), _number(0)
    ('1,234,568', '12.3', '0.012', '0')
    """
    if not math.isfinite(value):
        return "?"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{value:.2g}"
