"""The goals that the figures are held against, each as a ratio of one run. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

OURS = ("lastgood", "lastgood-overlap")

Values = dict[str, list[float]]


class Verdict(NamedTuple):
    what: str
    measured: float
    goal: str
    is_met: bool | None
    """None: the rounds spread so far that this run cannot tell."""


def at_most(what: str, measured: float, goal: float) -> Verdict:
    return Verdict(what, measured, f"at most {goal:g}", measured <= goal)


def at_least(what: str, measured: float, goal: float) -> Verdict:
    return Verdict(what, measured, f"at least {goal:g}", measured >= goal)


def of_stall(kind: str, first: Values, steady: Values, overlapped: set[str], copy_s: float) -> list[Verdict]:
    """`overlapped` are those that copy beside the next step; `copy_s` is a memory copy of the state."""
    found = []
    alike = _best(steady, [name for name in steady if name not in OURS and name not in overlapped])
    best = _best(steady, [name for name in steady if name not in OURS])
    best_first = _best(first, [name for name in first if name not in OURS])
    if "lastgood" in steady:
        mine = statistics.median(steady["lastgood"])
        if alike:
            found.append(at_most(f"{kind}: stall / {alike[0]}, the best that copies at once", mine / alike[1], 1.2))
        if best and best != alike:
            found.append(at_most(f"{kind}: stall / {best[0]}, the best peer", mine / max(best[1], 1e-4), 1.2))
        found.append(at_least(f"{kind}: rate of the stall / memcpy", copy_s / max(mine, 1e-4), 0.7))
        if best_first:
            mine = statistics.median(first["lastgood"])
            found.append(at_most(f"{kind}: first stall / {best_first[0]}", mine / max(best_first[1], 1e-4), 0.5))
    if "lastgood-overlap" in steady and best:
        mine = statistics.median(steady["lastgood-overlap"])
        if alike:
            what = f"{kind}: overlapped stall / {alike[0]}, the best that copies at once"
            found.append(at_most(what, mine / max(alike[1], 1e-4), 0.25))
        if best != alike:
            found.append(
                at_most(f"{kind}: overlapped stall / {best[0]}, the best peer", mine / max(best[1], 1e-4), 0.25)
            )
    return found


def of_slowdown(kind: str, slower: Values) -> list[Verdict]:
    best = _best(slower, [name for name in slower if name not in OURS and not name.startswith("none")])
    if best is None:
        return []
    found = []
    for name in OURS:
        if name in slower:
            ratio = statistics.median(slower[name]) / max(best[1], 0.1)
            verdict = at_most(f"{kind}: slowdown of {name} / {best[0]}", ratio, 0.5)
            # Nothing makes a loop faster by saving: a round that says so measures the machine.
            is_told = min(*slower[name], *slower[best[0]]) > 0
            found.append(verdict if is_told else verdict._replace(is_met=None))
    return found


def of_durable(kind: str, later: Values, raw: Values) -> list[Verdict]:
    if "lastgood" not in later:
        return []
    mine = statistics.median(later["lastgood"])
    found = []
    for names, goal in ((("dcp",), 0.35), (("torch-save", "torch-save-unchecked"), 0.55), (("safetensors",), 0.65)):
        if best := _best(later, [name for name in names if name in later]):
            found.append(at_most(f"{kind}: durable / {best[0]}", mine / best[1], goal))
    if best := _best(raw, [name for name in raw if raw[name]]):
        found.append(at_least(f"{kind}: rate until durable / {best[0]}", best[1] / mine, 0.85))
    return found


def of_memory(kind: str, extra: dict[str, int], size: int) -> list[Verdict]:
    return [
        at_most(f"{kind}: memory of {name}, less 64 MB, / state", (extra[name] - 64e6) / size, 2.0)
        for name in OURS
        if name in extra
    ]


def of_restore(kind: str, took: Values, raw: Values) -> list[Verdict]:
    if "lastgood" not in took:
        return []
    mine = statistics.median(took["lastgood"])
    found = []
    if best := _best(took, [name for name in took if name not in OURS]):
        found.append(at_most(f"{kind}: cold restore / {best[0]}", mine / best[1], 0.7))
    if best := _best(raw, [name for name in raw if raw[name]]):
        found.append(at_least(f"{kind}: rate of a cold restore / {best[0]}", best[1] / mine, 0.85))
    return found


def of_restart(what: str, took: Values) -> list[Verdict]:
    middle = {name: statistics.median(values) for name, values in took.items() if values}
    found = []
    if {"standby", "torchrun-dcp"} <= middle.keys():
        found.append(
            at_most(f"{what}: with standby / torchrun + DCP", middle["standby"] / middle["torchrun-dcp"], 0.25)
        )
    if {"run", "bare"} <= middle.keys():
        found.append(at_most(f"{what}: lastgood run / the bare script", middle["run"] / middle["bare"], 1.05))
    return found


_WORDS = {True: "met", False: "**not met**", None: "not told: within the noise"}


def shown(verdicts: Sequence[Verdict]) -> str:
    lines = ["| figure | measured | goal | |", "|---|---|---|---|"]
    lines += [f"| {v.what} | {v.measured:.2f} | {v.goal} | {_WORDS[v.is_met]} |" for v in verdicts]
    return "\n".join(lines)


def _best(values: Values, names: Iterable[str]) -> tuple[str, float] | None:
    """The name with the least median."""
    found = [(statistics.median(values[name]), name) for name in names if values.get(name)]
    return (min(found)[1], min(found)[0]) if found else None
