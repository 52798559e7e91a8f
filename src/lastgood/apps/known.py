"""The applications that we know, by the name that a person gives: an adapter of ours, a description that comes with us,
or the path of one. Only the one that is asked for is imported."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lastgood.core.errors import UsageError

if TYPE_CHECKING:
    from lastgood.launch.ports import Adapter

APPLICATIONS = {
    "criu": "lastgood.apps.criu:Criu",
    "lammps": "lastgood.apps.lammps:Lammps",
    "gromacs": "lastgood.apps.gromacs:Gromacs",
    "relion": "lastgood.apps.relion:Relion",
    "openfoam": "lastgood.apps.openfoam:OpenFoam",
}
"""Each name with its adapter, a class that is made from the command."""


DESCRIPTIONS = Path(__file__).parent / "descriptions"
"""Where the descriptions are that come with us."""
SUFFIX = ".toml"


def names() -> list[str]:
    """All names, in the order of the alphabet."""
    return sorted([*APPLICATIONS, *(path.stem for path in DESCRIPTIONS.glob(f"*{SUFFIX}"))])


def summary_of(name: str) -> str:
    """One line on an application that `names` has. Raises UsageError for a description that cannot be read."""
    path = description_path(name)
    if path is None:
        module = importlib.import_module(APPLICATIONS[name].partition(":")[0])
        return (module.__doc__ or "").strip().splitlines()[0]
    from lastgood.apps.description import read_description

    return read_description(path).summary


def description_path(name: str) -> str | None:
    """The file that describes an application; None for one with an adapter of ours. Raises UsageError for a name that
    nobody knows."""
    if name.endswith(SUFFIX):
        return name
    if name in APPLICATIONS:
        return None
    path = DESCRIPTIONS / f"{name}{SUFFIX}"
    if "/" in name or not path.is_file():
        raise UsageError(
            f"no application {name!r} is known",
            remedy=f"give one of {', '.join(names())}, or the path of a description that ends in {SUFFIX}",
        )
    return str(path)


def adapter_for(name: str, command: Sequence[str]) -> "Adapter":
    """The adapter of an application for a command. Raises UsageError for a command that it cannot continue."""
    path = description_path(name)
    if path is not None:
        from lastgood.apps.described import adapter_from

        return adapter_from(path, command)
    module, _, made_by = APPLICATIONS[name].partition(":")
    adapter: Adapter = getattr(importlib.import_module(module), made_by)(command)
    return adapter
