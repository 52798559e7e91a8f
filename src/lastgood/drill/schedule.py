"""Which faults come when: as they were given, at random by a seed, or as failures came in a history. Pure.

The same seed makes the same schedule. Times between failures are drawn by inverting their distribution:

    exponential   t = -m ln(1 - u)                     no memory: hardware in its middle age
    Weibull       t = s (-ln(1 - u))^(1/k)             k < 1: failures come in bursts, as clusters show; s = m / gamma(1 + 1/k)

with the mean m, the shape k, and u uniform on [0, 1).
"""

import math
import random
from collections.abc import Sequence
from typing import Literal

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.outcome import Outcome
from lastgood.drill.fault import Calm
from lastgood.drill.spec import SAVE, Kind, Spec, When

Distribution = Literal["exponential", "weibull"]

DEFAULT = (
    Spec("kill-rank"),
    Spec("kill-group", {}, When(Kind.PHASE, phase=SAVE)),
    Spec("terminate"),
    Spec("flip-bit"),
)
"""What a drill tries where nobody has said it: a crash, one in the middle of a save, the end of an allocation, and storage
that lies."""

_QUICK_PAUSE_S = 1.0

BY_OUTCOME: dict[Outcome, Spec] = {
    Outcome.KILLED: Spec("kill-rank"),
    Outcome.HANG: Spec("freeze"),
    Outcome.PREEMPTED: Spec("terminate"),
    Outcome.TIME_LIMIT: Spec("terminate"),
    Outcome.NODE_FAILURE: Spec("kill-launcher"),
    Outcome.LAUNCHER_LOST: Spec("kill-launcher"),
    Outcome.OUT_OF_MEMORY: Spec("kill-rank"),
    Outcome.COMMUNICATION: Spec("kill-rank"),
    Outcome.STORAGE_ERROR: Spec("kill-group"),
    Outcome.HARDWARE_ERROR: Spec("kill-group"),
}
"""How a failure of a history is caused again. What is not here was the program's own doing, or no failure."""


def time_to_failure_s(u: float, mean_s: float, distribution: Distribution, shape: float = 1.0) -> float:
    """The time to the next failure at the quantile `u` of [0, 1).

    >>> round(time_to_failure_s(0.5, 100, "exponential"), 2), round(time_to_failure_s(0.5, 100, "weibull", 1.0), 2)
    (69.31, 69.31)
    """
    if not 0 <= u < 1 or not mean_s > 0 or not shape > 0:
        raise ValueError(f"quantile {u} of a mean of {mean_s} s with shape {shape}")
    drawn = -math.log1p(-u)
    if distribution == "exponential":
        return mean_s * drawn
    return float(mean_s / math.gamma(1 + 1 / shape) * drawn ** (1 / shape))


def at_random(
    count: int,
    mean_s: float,
    kinds: Sequence[Spec],
    *,
    seed: int,
    distribution: Distribution = "exponential",
    shape: float = 1.0,
) -> list[Spec]:
    """So many faults of these kinds, at times from the start of the job."""
    chance = random.Random(seed)
    specs, at = [], 0.0
    for _ in range(count):
        at += time_to_failure_s(chance.random(), mean_s, distribution, shape)
        specs.append(_at(chance.choice(list(kinds)), at))
    return specs


class Failure(msgspec.Struct, frozen=True):
    """One of a history."""

    at_s: float
    """Of running time, from the first start."""
    outcome: Outcome


def replayed(failures: Sequence[Failure], *, speed_up: float, kinds: Sequence[Spec] = (), seed: int = 0) -> list[Spec]:
    """The failures of a history again, so much faster; of these kinds by turns of chance, or of their own if none are given."""
    if not speed_up > 0:
        raise UsageError(f"--speed-up {speed_up:g}: give a number above 0")
    chance = random.Random(seed)
    specs = []
    for failure in failures:
        spec = chance.choice(list(kinds)) if kinds else BY_OUTCOME.get(failure.outcome)
        if spec is not None:
            specs.append(_at(spec, failure.at_s / speed_up))
    return specs


def settled(specs: Sequence[Spec], calm: Calm, *, saved_step: int | None = None) -> list[Spec]:
    """With a moment for each that has none: spread over the undisturbed run's steps, the first after its first checkpoint;
    over its time, where steps are not known; one after the other, where nothing is."""
    open_ones = [i for i, spec in enumerate(specs) if spec.when is None]
    told = list(specs)
    for k, i in enumerate(open_ones, 1):
        share = k / (len(open_ones) + 1)
        when = When(Kind.AFTER, seconds=_QUICK_PAUSE_S)
        if calm.last_step > 0:
            least = min(saved_step or 0, calm.last_step)
            when = When(Kind.STEP, step=max(round(least + share * (calm.last_step - least)), 1))
        elif calm.took_s > 0:
            when = When(Kind.TIME, seconds=share * calm.took_s)
        told[i] = msgspec.structs.replace(specs[i], when=when)
    return told


def _at(spec: Spec, seconds: float) -> Spec:
    return msgspec.structs.replace(spec, when=When(Kind.TIME, seconds=round(seconds, 3)))
