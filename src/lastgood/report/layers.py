"""Stretches of time, and laying some over others. Pure.

A list of them is in order and without overlap; the moments at which one ends and the next begins are the same number, so
that nothing is counted twice and nothing is left out.
"""

from collections.abc import Iterable

import msgspec

from lastgood.report.model import SpanKind


class Stretch(msgspec.Struct, frozen=True):
    kind: SpanKind
    begin: float
    end: float


def sequence(begin: float, *ends: tuple[SpanKind, float]) -> list[Stretch]:
    """Stretches that follow on one another from `begin`, each up to its end. One that would end before it begins is
    left out.

    >>> sequence(0.0, ("restarting", 2.0), ("useful", 1.0), ("lost", 5.0))
    [Stretch(kind='restarting', begin=0.0, end=2.0), Stretch(kind='lost', begin=2.0, end=5.0)]
    """
    found = []
    for kind, end in ends:
        if end > begin:
            found.append(Stretch(kind, begin, end))
            begin = end
    return found


def laid_over(base: list[Stretch], top: list[Stretch], covers: Iterable[SpanKind]) -> list[Stretch]:
    """`base`, with `top` in place of what lies below it, where that is one of the kinds that it `covers`.

    >>> base = sequence(0.0, ("restarting", 2.0), ("useful", 9.0))
    >>> [(s.kind, s.end) for s in laid_over(base, [Stretch("saving", 1.0, 4.0)], ["useful"])]
    [('restarting', 2.0), ('saving', 4.0), ('useful', 9.0)]
    """
    kinds = set(covers)
    found: list[Stretch] = []
    at = 0
    for below in base:
        begin = below.begin
        while at < len(top) and top[at].end <= begin:
            at += 1
        if below.kind in kinds:
            i = at
            while i < len(top) and top[i].begin < below.end:
                over = top[i]
                found += sequence(begin, (below.kind, over.begin), (over.kind, min(over.end, below.end)))
                begin = max(begin, min(over.end, below.end))
                i += 1
        found += sequence(begin, (below.kind, below.end))
    return joined_up(found)


def in_order(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Without overlap: where two overlap, the later one begins where the earlier one ends."""
    found: list[Stretch] = []
    for one in sorted(stretches, key=lambda s: (s.begin, s.end)):
        begin = max(one.begin, found[-1].end) if found else one.begin
        found += sequence(begin, (one.kind, one.end))
    return found


def joined_up(stretches: list[Stretch]) -> list[Stretch]:
    """Neighbours of one kind as one."""
    found: list[Stretch] = []
    for one in stretches:
        if found and found[-1].kind == one.kind and found[-1].end == one.begin:
            found[-1] = Stretch(one.kind, found[-1].begin, one.end)
        else:
            found.append(one)
    return found
