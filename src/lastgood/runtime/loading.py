"""Putting a checkpoint's content into the program, after everything about it has been compared."""

from typing import Any

from lastgood.core import tree
from lastgood.core.errors import ConfigChangedError, DamagedError, LastgoodError, StateMismatchError
from lastgood.core.manifest import Manifest
from lastgood.runtime.ports import Framework, Ranks, Stateful
from lastgood.runtime.resume import Restored
from lastgood.runtime.state import is_reserved

MAX_DIFFERENCES = 20

_UNTOUCHED = "nothing was loaded or changed; the checkpoint is whole"


def refuse_changed_config(
    manifest: Manifest, config: dict[str, Any], allowed: set[str], frameworks: list[Framework]
) -> list[str]:
    """Raise ConfigChangedError for hyperparameters that differ without permission; the allowed differences."""
    saved = manifest.config
    lines = {
        name: f"{name}: {_shown(saved, name, frameworks)} in the checkpoint, {_shown(config, name, frameworks)} now"
        for name in sorted({*saved, *config})
        if name not in saved or name not in config or saved[name] != config[name]
    }
    refused = [line for name, line in lines.items() if name not in allowed]
    if refused:
        names = ", ".join(repr(name) for name in lines if name not in allowed)
        raise ConfigChangedError(
            f"the configuration differs from that of checkpoint {manifest.name}:\n    " + _few(refused),
            safe=_UNTOUCHED,
            remedy=f"use the saved values, or allow the change: lastgood.Run(..., allow_config_change=[{names}])",
        )
    return list(lines.values())


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


def load(
    entries: dict[str, Stateful], restored: Restored, ranks: Ranks, *, allow_world_size_change: bool
) -> dict[str, Any]:
    """Restore every entry of the user's state; the entries that are ours are returned, not applied.

    Raises StateMismatchError, before anything is changed, if the checkpoint does not fit the program.
    """
    _refuse_left_behind(restored, ranks, allow_world_size_change=allow_world_size_change)
    saved = {name: value for name, value in restored.entries.items() if not is_reserved(name)}
    lines = _differences(entries, saved, set(restored.left_behind))
    if lines:
        raise StateMismatchError(
            f"checkpoint {restored.manifest.name} does not fit this program:\n    " + _few(lines),
            safe=_UNTOUCHED,
            remedy="use the program (and its settings) that wrote it, or another --job directory for the changed one",
        )
    for name, entry in entries.items():
        if name not in saved:
            continue
        try:
            entry.restore(saved[name])
        except LastgoodError:
            raise
        except Exception as error:
            raise StateMismatchError(
                f"{name} of checkpoint {restored.manifest.name} could not be loaded: {type(error).__name__}: {error}",
                safe="the checkpoint is whole; this program's state is now partly loaded and must not be used",
                remedy="use the program that wrote it, or another --job directory for the changed one",
            ) from error
    return {name: value for name, value in restored.entries.items() if is_reserved(name)}


def _refuse_left_behind(restored: Restored, ranks: Ranks, *, allow_world_size_change: bool) -> None:
    if not restored.left_behind or allow_world_size_change:
        return
    raise StateMismatchError(
        f"checkpoint {restored.manifest.name} was saved by {restored.manifest.world_size} ranks, this is a job of "
        f"{ranks.world_size}, and these entries belong to single ranks: {', '.join(restored.left_behind)}",
        safe=_UNTOUCHED,
        remedy=f"run with {restored.manifest.world_size} ranks, or say that going on without them is right: "
        "lastgood.Run(..., allow_world_size_change=True)",
    )


def _differences(entries: dict[str, Stateful], saved: dict[str, Any], left_behind: set[str]) -> list[str]:
    lines = [
        f"{name} is missing in the checkpoint" for name in entries if name not in saved and name not in left_behind
    ]
    lines += [f"{name} is only in the checkpoint" for name in saved if name not in entries]
    for name, entry in entries.items():
        if name in saved:
            lines += [f"{name}{'' if line.startswith('.') else ' '}{line}" for line in entry.mismatches(saved[name])]
    return lines


def _few(lines: list[str]) -> str:
    more = [f"... and {len(lines) - MAX_DIFFERENCES} more"] if len(lines) > MAX_DIFFERENCES else []
    return "\n    ".join(lines[:MAX_DIFFERENCES] + more)
