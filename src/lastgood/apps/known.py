"""The applications that we know, by the name that a person gives. Only the one that is asked for is imported."""

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lastgood.launch.ports import Adapter

APPLICATIONS = {
    "gromacs": "lastgood.apps.gromacs:Gromacs",
}
"""Each name with its adapter, a class that is made from the command."""


def adapter_for(name: str, command: Sequence[str]) -> "Adapter":
    """The adapter of an application for a command. Raises UsageError for a command that it cannot continue."""
    module, _, made_by = APPLICATIONS[name].partition(":")
    adapter: Adapter = getattr(importlib.import_module(module), made_by)(command)
    return adapter
