"""Which rules are asked: by code, by the begin of one, by family or by name. Pure."""

from collections.abc import Sequence

from lastgood.audit.rule import FAMILIES, Rule
from lastgood.core.errors import UsageError


def select(rules: Sequence[Rule], selected: Sequence[str], ignored: Sequence[str]) -> tuple[Rule, ...]:
    """Those selected (all, if nothing is), without those ignored; of two that fit the more exact one counts.

    Raises UsageError for a word that fits no rule.
    """
    chosen = []
    for rule in rules:
        for_it = max((_exactness(rule, word) for word in selected), default=0)
        against_it = max((_exactness(rule, word) for word in ignored), default=0)
        if (not selected or for_it) and for_it >= against_it:
            chosen.append(rule)
    for word in [*selected, *ignored]:
        if not any(_exactness(rule, word) for rule in rules):
            raise UsageError(
                f"no rule is called {word!r}",
                remedy=f"give a code (LG101), its begin (LG1), a name, or a family ({', '.join(FAMILIES.values())}); "
                "`lastgood explain` lists the rules",
            )
    return tuple(chosen)


def words_of(values: Sequence[str]) -> list[str]:
    """
    >>> words_of(["LG1,LG203", " requeue "])
    ['LG1', 'LG203', 'requeue']
    """
    return [word for value in values for word in value.replace(",", " ").split()]


def _exactness(rule: Rule, word: str) -> int:
    """How exactly a word means this rule; 0: not at all."""
    upper = word.upper()
    if upper == "ALL":
        return 1
    if word.lower() == rule.name:
        return len(rule.code)
    if word.lower() == rule.family:
        return 3
    return len(upper) if upper.startswith("LG") and rule.code.startswith(upper) else 0
