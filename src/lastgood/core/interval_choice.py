"""The interval to save at: the optimum for a measured save, within bounds, and which of them was binding. Pure."""

import math
from enum import StrEnum

import msgspec

from lastgood.core.interval import efficiency, exact_interval_s
from lastgood.core.units import byte_size, duration

SOUND_FRACTION_OF_MTTI = 0.27
"""Up to this fraction of the MTTI, a period and its recovery see two failures or more with a probability
below about 3 %; first-order formulas, which count one, are trusted up to there (the bound is from G. Aupy,
Y. Robert, F. Vivien, D. Zaidouni, "Checkpointing algorithms and fault prediction", JPDC 2014)."""

NOTABLE_LOSS = 0.01
"""A bound that costs less than this share of the time is not worth a word."""


class SaveCost(msgspec.Struct, frozen=True):
    """What one save costs, measured or expected."""

    stall_s: float
    """The loop stands still."""
    write_s: float
    """From the safe point until the checkpoint is committed; storage is busy meanwhile. Equal to `stall_s`
    where saves are synchronous."""
    bytes: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.stall_s <= self.write_s < math.inf or self.bytes < 0:
            raise ValueError(f"{self}: a write ends no earlier than its stall")

    @property
    def lag_s(self) -> float:
        """From the end of the stall until the snapshot counts."""
        return self.write_s - self.stall_s


class Limits(msgspec.Struct, frozen=True):
    """What an interval has to respect beside the failures."""

    max_write_share: float = 0.10
    """Share of the time that storage may be busy with our writes; at most 1, for a write has to be done
    before the next begins."""
    max_bytes_per_s: float | None = None
    """Mean bandwidth that our writes may take; None: no bound."""
    least_s: float = 0.0
    most_s: float = math.inf
    """Gives way where a write does not fit into it."""

    def __post_init__(self) -> None:
        if not 0 < self.max_write_share <= 1 or not 0 <= self.least_s <= self.most_s:
            raise ValueError(f"{self}: no interval can be within these limits")
        if self.max_bytes_per_s is not None and not self.max_bytes_per_s > 0:
            raise ValueError(f"{self}: no interval can be within these limits")


class Bound(StrEnum):
    """What determined an interval."""

    OPTIMUM = "optimum"
    MOST = "upper limit"
    LEAST = "lower limit"
    WRITE_SHARE = "write share"
    BANDWIDTH = "bandwidth"


class Choice(msgspec.Struct, frozen=True):
    interval_s: float
    """Work between the end of one stall and the next save."""
    bound: Bound
    reason: str
    efficiency: float
    """Expected, without restart and detection, which no interval changes."""
    doubt: str = ""
    """Why not to trust the number, or what the bound costs; empty if all is well."""


def choose_interval(save: SaveCost, mtti_s: float, limits: Limits | None = None) -> Choice:
    """The interval that loses least within `limits`, and which of them was binding.

    The exact optimum for the stall, cut at `most_s`, and then as long as the write needs: a write may take no
    more than its share of the time and of the bandwidth. Same units and failures as `exact_interval_s`.

    >>> choice = choose_interval(SaveCost(stall_s=0.1, write_s=10, bytes=10**10), 86400)
    >>> round(choice.interval_s), choice.bound.value, choice.reason
    (131, 'optimum', 'least loss at a stall of 0.1 s a save')
    >>> choice = choose_interval(SaveCost(stall_s=0.1, write_s=60), 86400)
    >>> round(choice.interval_s), choice.reason
    (600, 'a write of 60 s may take 10 % of the time')
    """
    limits = limits or Limits()
    optimum_s = exact_interval_s(save.stall_s, mtti_s)
    found = (optimum_s, Bound.OPTIMUM, f"least loss at a stall of {duration(save.stall_s)} a save")
    if limits.most_s < optimum_s:
        found = (limits.most_s, Bound.MOST, "more rarely would risk too much")
    share = f"a write of {duration(save.write_s)} may take {_percent(limits.max_write_share)}"
    floors = [
        (limits.least_s, Bound.LEAST, "more often would gain nothing"),
        (save.write_s / limits.max_write_share - save.stall_s, Bound.WRITE_SHARE, f"{share} of the time"),
    ]
    if limits.max_bytes_per_s is not None:
        bandwidth = f"{byte_size(save.bytes)} a save at {byte_size(limits.max_bytes_per_s)}/s on average"
        floors.append((save.bytes / limits.max_bytes_per_s - save.stall_s, Bound.BANDWIDTH, bandwidth))
    interval_s, bound, reason = max([found, *floors], key=lambda one: one[0])
    reached = efficiency(interval_s, save.stall_s, mtti_s, lag_s=save.lag_s)
    return Choice(interval_s, bound, reason, reached, _doubt(save, mtti_s, interval_s, optimum_s, reached))


def _doubt(save: SaveCost, mtti_s: float, interval_s: float, optimum_s: float, reached: float) -> str:
    doubts = []
    exposed_s = interval_s + save.write_s
    if exposed_s > SOUND_FRACTION_OF_MTTI * mtti_s:
        doubts.append(
            f"an interval and its write ({duration(exposed_s)}) are near the mean time to interruption "
            f"({duration(mtti_s)}): several failures can strike before one save is done, and "
            f"{_percent(1 - reached)} of the time is lost; faster saves help more than any interval"
        )
    # The lag multiplies both sides alike.
    best = efficiency(optimum_s, save.stall_s, mtti_s) * math.exp(-save.lag_s / mtti_s)
    if best - reached > NOTABLE_LOSS:
        doubts.append(f"the bound costs {_percent(best - reached)} of the time")
    return "; ".join(doubts)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
