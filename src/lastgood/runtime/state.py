"""The state of a job: a mapping of names to things that can be captured and put back."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

from lastgood.core.errors import UnstorableError, UsageError
from lastgood.runtime.ports import Framework, Stateful

PROGRESS, VALUES = "lastgood.progress", "lastgood.values"
"""Entries of ours beside the user's: step and position in the data, the same on all ranks; `run.values`."""

DATA, RANDOM = "lastgood.data", "lastgood.random"
"""Each rank's own: how its loader was opened; its random state."""


def is_reserved(name: str) -> bool:
    """True for names of entries that are ours."""
    return name == "lastgood" or name.startswith("lastgood.")


def parts_of(entries: Iterable[Stateful]) -> Iterator[Stateful]:
    """All entries, with those inside of groups instead of the groups."""
    for entry in entries:
        if isinstance(entry, Member):
            yield from parts_of([entry.entry])
        elif isinstance(entry, Group):
            yield from parts_of(entry.members.values())
        else:
            yield entry


def make_entries(state: Mapping[str, object], frameworks: list[Framework]) -> dict[str, Stateful]:
    """How each entry of a user's state is saved and loaded. Raises UsageError for one that cannot be."""
    if not isinstance(state, Mapping):
        raise UsageError(
            f"the state must be a mapping of names to objects, not {type(state).__qualname__}",
            remedy='write lastgood.Run({"model": model, "optimizer": optimizer})',
        )
    for name in state:
        if not isinstance(name, str) or not name or is_reserved(name) or name.startswith("$"):
            raise UsageError(f"{name!r} cannot name an entry of the state", remedy="use a text such as 'model'")
    return {name: Member(state, name, name, frameworks) for name in state}


def make_entry(name: str, value: object, frameworks: list[Framework]) -> Stateful:
    """How one value is saved and loaded; see `lastgood.Run` for what is accepted."""
    try:
        entry = _adapted(value, frameworks)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    if entry is not None:
        return entry
    if isinstance(value, random.Random):
        return PythonRandom(value)
    if _has_state_dict(value):
        return WithStateDict(value)
    if _is_pair_of_functions(value, frameworks):
        return Functions(*value)  # type: ignore[misc]
    if isinstance(value, Mapping):
        members = {str(key): Member(value, key, f"{name}.{key}", frameworks) for key in value}
        if len(members) < len(value):
            raise UsageError(f"{name}: two of its keys are the same when written as text")
        return Group(name, value, members)
    if isinstance(value, list | tuple):
        return Group(name, value, {str(i): Member(value, i, f"{name}.{i}", frameworks) for i in range(len(value))})
    raise UsageError(f"{name}: {_advice(value)}")


def _adapted(value: object, frameworks: list[Framework]) -> Stateful | None:
    return next((entry for f in frameworks if (entry := f.adapt(value)) is not None), None)


def _has_state_dict(value: object) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def _is_pair_of_functions(value: object, frameworks: list[Framework]) -> bool:
    """True for (save, load); not for two modules, which can be called, too."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(callable(f) and not _has_state_dict(f) and _adapted(f, frameworks) is None for f in value)
    )


def _advice(value: object) -> str:
    kind = type(value).__qualname__
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return f"a plain value ({kind}) cannot be restored in place; keep it in run.values"
    if hasattr(value, "__iter__") and hasattr(value, "dataset"):
        return f"{kind} does not say where it is; iterate it with run.batches(loader), which keeps the position"
    return (
        f"{kind} has no state_dict/load_state_dict and is no array; give it one, or a pair of functions (save, load) "
        "where save() returns plain values and arrays and load(value) puts them back"
    )


class WithStateDict:
    """Anything with the usual pair of methods."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def capture(self) -> object:
        return self._value.state_dict()

    def mismatches(self, tree: Any) -> list[str]:
        return []

    def restore(self, tree: Any) -> None:
        self._value.load_state_dict(tree)


class Functions:
    """A pair (save, load)."""

    def __init__(self, save: Callable[[], object], load: Callable[[Any], object]) -> None:
        self._save = save
        self._load = load

    def capture(self) -> object:
        return self._save()

    def mismatches(self, tree: Any) -> list[str]:
        return []

    def restore(self, tree: Any) -> None:
        self._load(tree)


class PythonRandom:
    """A `random.Random` of the job's own."""

    def __init__(self, value: random.Random) -> None:
        self._value = value

    def capture(self) -> object:
        return self._value.getstate()

    def mismatches(self, tree: Any) -> list[str]:
        return [] if isinstance(tree, tuple) and len(tree) == 3 else ["is not the state of a random.Random"]

    def restore(self, tree: Any) -> None:
        self._value.setstate(tree)


class Member:
    """One place in a mapping or sequence of the program's: saved is what is there at that moment."""

    def __init__(self, container: Any, key: Any, name: str, frameworks: list[Framework]) -> None:
        self._container = container
        self._key = key
        self._name = name
        self._frameworks = frameworks
        self._value = container[key]
        self.entry = make_entry(name, self._value, frameworks)

    def capture(self) -> object:
        try:
            value = self._container[self._key]
        except LookupError:
            raise _changed(self._name, "is not in the state any more") from None
        if value is not self._value:
            self._follow(value)
        return self.entry.capture()

    def _follow(self, value: object) -> None:
        try:
            entry = make_entry(self._name, value, self._frameworks)
        except UsageError as error:
            raise _changed(self._name, f"was bound to something else ({error.what})") from error
        if type(entry) is not type(self.entry) or entry.mismatches(self.entry.capture()):
            # The next start would refuse it: a program like this one has the former.
            raise _changed(self._name, "was bound to something of another kind, shape or type")
        self._value, self.entry = value, entry

    def mismatches(self, tree: Any) -> list[str]:
        return self.entry.mismatches(tree)

    def restore(self, tree: Any) -> None:
        self.entry.restore(tree)


def _changed(name: str, what: str) -> UnstorableError:
    return UnstorableError(
        f"{name} {what} after lastgood.Run was made",
        remedy="keep what grows, shrinks or changes its shape in run.values, or give a pair of functions (save, load)",
    )


class Group:
    """A mapping or sequence of entries."""

    def __init__(self, name: str, container: Sized, members: Mapping[str, Stateful]) -> None:
        self._name = name
        self._container = container
        self.members = members

    def capture(self) -> object:
        if len(self._container) > len(self.members):
            raise _changed(self._name, f"has grown to {len(self._container)} members")
        return {name: member.capture() for name, member in self.members.items()}

    def mismatches(self, tree: Any) -> list[str]:
        if not isinstance(tree, dict):
            return ["is a group of entries here, but not in the checkpoint"]
        return name_differences(self.members.keys(), tree.keys()) + [
            f".{name}{_separator(line)}{line}"
            for name, member in self.members.items()
            if name in tree
            for line in member.mismatches(tree[name])
        ]

    def restore(self, tree: Any) -> None:
        for name, member in self.members.items():
            member.restore(tree[name])


def name_differences(here: Any, saved: Any) -> list[str]:
    """Lines for names that only one side has.

    >>> name_differences(["a", "b"], ["b", "c"])
    ['.a is missing in the checkpoint', '.c is only in the checkpoint']
    """
    lines = [f".{name} is missing in the checkpoint" for name in here if name not in saved]
    return lines + [f".{name} is only in the checkpoint" for name in saved if name not in here]


def _separator(line: str) -> str:
    return "" if line.startswith(".") else " "
