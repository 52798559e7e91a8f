"""Comparing the environments of two attempts: what differs, and what that can do to the numbers. Pure."""

from collections.abc import Mapping

import msgspec

from lastgood.core.fingerprint_items import GROMACS, MACHINE, NUMPY, TORCH, VARIABLES, Effect, groups, item

EDITION = "edition"
"""Name of the fact that tells which items were looked at: what is not there was not set, or not in use. Facts without it
are of a time when little was looked at, and only what they have can be compared."""
NEWEST_EDITION = "2"

_ORDER = [Effect.CHANGES, Effect.MAY_CHANGE, Effect.NONE]


class Difference(msgspec.Struct, frozen=True):
    """One item that two environments do not have in common."""

    name: str
    old: str
    new: str
    effect: Effect
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.old} -> {self.new} ({self.why})"


def compare(old: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
    """What differs: first what changes numbers, then what may, then what does not.

    >>> [str(one) for one in compare({"edition": "2", "cudnn": "9.1"}, {"edition": "2", "cudnn": "9.3"})]
    ['cudnn: 9.1 -> 9.3 (convolutions, recurrent layers and attention may take another algorithm)']
    """
    is_only_common = not old.get(EDITION) == new.get(EDITION) == NEWEST_EDITION
    places = {name: place for place, name in enumerate(name for _, members in groups() for name in members)}
    found = [
        Difference(name, _shown(old, name), _shown(new, name), item(name).effect, item(name).why)
        for name in {*old, *new} - {EDITION}
        if old.get(name) != new.get(name) and _was_looked_at(name, old, new, is_only_common=is_only_common)
    ]
    return sorted(found, key=lambda one: (_ORDER.index(one.effect), places.get(one.name, len(places)), one.name))


def _was_looked_at(name: str, old: Mapping[str, str], new: Mapping[str, str], *, is_only_common: bool) -> bool:
    """Whether an item that only one side has is a difference. Of a framework's items only where both sides use it: the
    facts of a machine, or of another program, have none of them."""
    if name in old and name in new:
        return True
    if is_only_common:
        return False
    leader = next((next(iter(table)) for table in (NUMPY, TORCH, GROMACS) if name in table), None)
    if leader is not None:
        return leader in old and leader in new
    return name in MACHINE or name in VARIABLES


def that_matter(found: list[Difference]) -> list[Difference]:
    """Those that can change numbers."""
    return [one for one in found if one.effect is not Effect.NONE]


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """One line for each item that differs and can change numbers.

    >>> differences({"numpy": "2.1", "host": "a"}, {"numpy": "2.2", "host": "b"})
    ['numpy: 2.1 -> 2.2 (its kernels and the streams of its random distributions may differ between versions)']
    """
    return [str(one) for one in that_matter(compare(old, new))]


def kept_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the environment that can change numbers.

    >>> kept_variables({"HOME": "/root", "NCCL_ALGO": "Ring"})
    {'NCCL_ALGO': 'Ring'}
    """
    return {name: environment[name] for name in VARIABLES if name in environment}


def _shown(facts: Mapping[str, str], name: str) -> str:
    if name in facts:
        return facts[name] or "(empty)"
    return "not set" if name in VARIABLES else "absent"
