"""Putting a checkpoint's content into the program, after everything about it has been compared."""

import ctypes
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

from lastgood.core import tree
from lastgood.core.errors import ConfigChangedError, DamagedError, LastgoodError, StateMismatchError
from lastgood.core.manifest import Manifest
from lastgood.runtime.offer import Restored
from lastgood.runtime.ports import Framework, InPlace, Stateful
from lastgood.runtime.state import Group, Member, is_reserved

MAX_DIFFERENCES = 20

_UNTOUCHED = "nothing was loaded or changed; the checkpoint is whole"
_TOUCHED = "; this program's state is partly that of a damaged checkpoint and must not be used"


@runtime_checkable
class WithSettings(Protocol):
    """A `Stateful` that keeps hyperparameters of its own, which come back with its state."""

    def settings_kept(self, tree: Any, names: set[str]) -> list[str]:
        """Which of these are other in `tree` than here, such as "lr 0.1 as it was saved, not 0.2"."""


class Program:
    """What a checkpoint's content goes into: the entries of a program's state, and its settings."""

    def __init__(
        self,
        entries: dict[str, Stateful],
        config: dict[str, Any],
        frameworks: list[Framework],
        world_size: int,
        *,
        allow_config_change: set[str],
        allow_world_size_change: bool,
    ) -> None:
        self._entries = entries
        self._config = config
        self._frameworks = frameworks
        self._world_size = world_size
        self._allow_config_change = allow_config_change
        self._allow_world_size_change = allow_world_size_change
        self._in_place: list[Stateful] = []
        """Entries whose content is put where it belongs while it is read."""
        self._touched: set[str] = set()
        """Names of entries that were being read into."""
        self.config_changes: list[str] = []
        """The allowed differences, of settings and in what the ranks had of their own."""

    @property
    def warning(self) -> str:
        """See `offer.Target`."""
        return _TOUCHED if self._touched else ""

    def compare(self, restored: Restored) -> None:
        """Raise StateMismatchError or ConfigChangedError if the checkpoint does not fit. Nothing is changed."""
        safe = f"the checkpoint is whole{self.warning}" if self._touched else _UNTOUCHED
        self.config_changes = self._refuse_changed_config(restored.manifest, safe)
        self._refuse_left_behind(restored, safe)
        self.config_changes += self._taken_from_ranks(restored)
        saved = _of_user(restored)
        lines = _differences(self._entries, saved, restored)
        if lines:
            raise StateMismatchError(
                f"checkpoint {restored.manifest.name} does not fit this program:\n    " + _few(lines),
                safe=safe,
                remedy="use the program (and its settings) that wrote it, or another --job directory for the changed one",
            )
        self.config_changes += self._settings_kept(restored.manifest, saved)

    def places(self, restored: Restored, name_of: Callable[[object], str]) -> list[tuple[object, memoryview]]:
        """See `offer.Target`."""
        saved = _of_user(restored)
        found: list[tuple[object, memoryview]] = []
        self._in_place = []
        touched = set()
        for name, entry in self._entries.items():
            for leaf, content in _leaves(entry, saved[name]) if name in saved else ():
                places = leaf.places(content) if isinstance(leaf, InPlace) else None
                if places is not None:
                    self._in_place.append(leaf)
                    found += places
                    touched.add(name)
        if _collide([(memory, name_of(array)) for array, memory in found]):
            # Which content wins is decided by the order of the entries, as it was when each was restored by itself.
            self._in_place = []
            return []
        self._touched |= touched
        return found

    def put(self, restored: Restored) -> dict[str, Any]:
        """Restore every entry of the user's state that is not in place yet; the entries that are ours are returned,
        not applied."""
        saved = _of_user(restored)
        for name, entry in self._entries.items():
            for leaf, content in _leaves(entry, saved[name]) if name in saved else ():
                if any(leaf is other for other in self._in_place):
                    continue
                try:
                    leaf.restore(content)
                except LastgoodError:
                    raise
                except Exception as error:
                    raise StateMismatchError(
                        f"{name} of checkpoint {restored.manifest.name} could not be loaded: {type(error).__name__}: {error}",
                        safe="the checkpoint is whole; this program's state is now partly loaded and must not be used",
                        remedy="use the program that wrote it, or another --job directory for the changed one",
                    ) from error
        return {name: value for name, value in restored.entries.items() if is_reserved(name)}

    def _refuse_changed_config(self, manifest: Manifest, safe: str) -> list[str]:
        """Raise ConfigChangedError for hyperparameters that differ without permission; the allowed differences."""
        saved, config = manifest.config, self._config
        lines = {
            name: f"{name}: {_shown(saved, name, self._frameworks)} in the checkpoint, "
            f"{_shown(config, name, self._frameworks)} now"
            for name in sorted({*saved, *config})
            if name not in saved or name not in config or saved[name] != config[name]
        }
        refused = [line for name, line in lines.items() if name not in self._allow_config_change]
        if refused:
            names = ", ".join(repr(name) for name in lines if name not in self._allow_config_change)
            raise ConfigChangedError(
                f"the configuration differs from that of checkpoint {manifest.name}:\n    " + _few(refused),
                safe=safe,
                remedy=f"use the saved values, or allow the change: lastgood.Run(..., allow_config_change=[{names}])",
            )
        return list(lines.values())

    def _refuse_left_behind(self, restored: Restored, safe: str) -> None:
        left_behind = restored.left_behind
        of_single_ranks = sorted([*left_behind, *restored.of_rank_0])
        if of_single_ranks and not self._allow_world_size_change:
            raise StateMismatchError(
                f"checkpoint {restored.manifest.name} was saved by {restored.manifest.world_size} ranks, this is a job of "
                f"{self._world_size}, and these entries belong to single ranks: {', '.join(of_single_ranks)}",
                safe=safe,
                remedy=f"run with {restored.manifest.world_size} ranks, or say that going on {_instead(restored)} is right: "
                "lastgood.Run(..., allow_world_size_change=True)",
            )
        if lost := sorted(self._touched.intersection(left_behind)):
            raise StateMismatchError(
                f"checkpoint {restored.manifest.name} cannot take the place of a newer one that is damaged: it was saved "
                f"by {restored.manifest.world_size} ranks and has no content for {', '.join(lost)}",
                safe=safe,
                remedy="run again: the damaged one is marked and not tried first any more",
            )

    def _settings_kept(self, manifest: Manifest, saved: dict[str, Any]) -> list[str]:
        """Where a hyperparameter that was changed stays as it was saved, one line each."""
        changed = {name for name in self._allow_config_change if manifest.config.get(name) != self._config.get(name)}
        return [
            f"{name} goes on with {line}; to change it, set it after lastgood.Run is made"
            for name, entry in self._entries.items()
            if changed and name in saved
            for leaf, content in _leaves(entry, saved[name])
            if isinstance(leaf, WithSettings)
            for line in leaf.settings_kept(content, changed)
        ]

    def _taken_from_ranks(self, restored: Restored) -> list[str]:
        """What becomes of that which belongs to single ranks, one line each."""
        return [
            f"{name} differs between the {restored.manifest.world_size} ranks that saved it: rank 0's is used"
            for name in restored.of_rank_0
            if name in self._entries
        ] + [f"{name} belongs to single ranks and is left behind" for name in restored.left_behind]


def _instead(restored: Restored) -> str:
    """How a job of another number of ranks goes on."""
    ways = [f"with rank 0's {', '.join(restored.of_rank_0)}"] if restored.of_rank_0 else []
    ways += [f"without {', '.join(restored.left_behind)}"] if restored.left_behind else []
    return " and ".join(ways)


def _of_user(restored: Restored) -> dict[str, Any]:
    return {name: value for name, value in restored.entries.items() if not is_reserved(name)}


def _leaves(entry: Stateful, content: Any) -> Iterator[tuple[Stateful, Any]]:
    """The entries that a group consists of, down to the last, each with its content."""
    if isinstance(entry, Member):
        yield from _leaves(entry.entry, content)
    elif isinstance(entry, Group):
        for name, member in entry.members.items():
            yield from _leaves(member, content[name])
    else:
        yield entry, content


def _collide(places: list[tuple[memoryview, str]]) -> bool:
    """True if different arrays would go to the same memory."""
    extents = []
    for memory, name in places:
        if memory.nbytes:
            begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            extents.append((begin, begin + memory.nbytes, name))
    extents.sort()
    return any(
        begin < end_before and (begin, end, name) != (begin_before, end_before, name_before)
        for (begin_before, end_before, name_before), (begin, end, name) in pairwise(extents)
    )


def _shown(config: dict[str, Any], name: str, frameworks: list[Framework]) -> str:
    """A value as Python writes it, so that a text and a number do not look the same."""
    if name not in config:
        return "absent"
    try:
        return repr(tree.unflatten(config[name], _no_array, frameworks))
    except DamagedError:
        # A value of a framework that this program does not use.
        return str(config[name])


def _no_array(name: str, kind: str, tag: dict[str, Any]) -> object:
    raise DamagedError(f"config holds no arrays, and not {name!r}")


def _differences(entries: dict[str, Stateful], saved: dict[str, Any], restored: Restored) -> list[str]:
    missing = entries.keys() - saved.keys() - set(restored.left_behind)
    lines = [f"{name} is missing in the checkpoint" for name in entries if name in missing]
    # What single ranks had of their own, a job of another number of ranks may do without.
    surplus = saved.keys() - entries.keys() - set(restored.of_rank_0)
    lines += [f"{name} is only in the checkpoint" for name in saved if name in surplus]
    for name, entry in entries.items():
        if name in saved:
            lines += [f"{name}{'' if line.startswith('.') else ' '}{line}" for line in entry.mismatches(saved[name])]
    return lines


def _few(lines: list[str]) -> str:
    more = [f"... and {len(lines) - MAX_DIFFERENCES} more"] if len(lines) > MAX_DIFFERENCES else []
    return "\n    ".join(lines[:MAX_DIFFERENCES] + more)
