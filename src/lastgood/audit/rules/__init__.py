"""The rules, one module each, named by its code. A new module is found by itself."""

import importlib
import pkgutil
from functools import cache

from lastgood.audit.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    modules = (importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
    return tuple(sorted((module.RULE for module in modules), key=lambda rule: rule.code))


def rule_of(code: str) -> Rule:
    """Raises KeyError if there is none of that code."""
    return _by_code()[code]


def is_rule(code: str) -> bool:
    return code in _by_code()


@cache
def _by_code() -> dict[str, Rule]:
    return {rule.code: rule for rule in all_rules()}
