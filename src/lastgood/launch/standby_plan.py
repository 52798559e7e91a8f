"""What a parked interpreter is to import, and what must not change until it is used."""

import marshal
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from lastgood.core.imports import Imported
from lastgood.launch import sameness

_OURS = Path(__file__).parent.parent


class Plan(msgspec.Struct, frozen=True):
    data: bytes
    """For `parking/sitecustomize.py`."""
    modules: int
    found: sameness.Found
    look: Callable[[], sameness.Found]
    """The same, as it is now."""


def make_plan(imported: Imported, given: Mapping[str, str]) -> Plan:
    """For a process that is started with the variables `given`."""
    # Reading source text takes modules that only a launcher with a standby needs.
    from lastgood.launch.import_order import import_order

    def is_own(file: str) -> bool:
        if any(name in file.split("/") for name in sameness.INSTALLED_IN):
            return False
        return not file.startswith((imported.standard_library + "/", f"{_OURS}/"))

    order = import_order(imported, is_own, lambda file: Path(_path(file)).read_bytes())
    names = [*order.first, *order.later]
    files = dict(imported.modules)
    watched = [_path(file) for file in (*files.values(), imported.main_file) if file]
    path = [_path(entry) for entry in imported.path]

    def look() -> sameness.Found:
        return sameness.look(watched, path, names)

    # Before anything is imported: what changes meanwhile counts as changed.
    found = look()
    data = {
        "environment": _as_bytes(given),
        "main_file": _path(imported.main_file),
        "first": [(name, _path(files[name])) for name in order.first],
        "later": [(name, _path(files[name])) for name in order.later],
        "changed": {
            _latin(name): None if value is None else _latin(value)
            for name, value in imported.changed.items()
            if not _is_known(name, value, given)
        },
    }
    return Plan(marshal.dumps(data, 2), len(names), found, look)


def encode_environment(environment: Mapping[str, str]) -> bytes:
    return marshal.dumps(_as_bytes(environment), 2)


def _is_known(name: str, value: str | None, given: Mapping[str, str]) -> bool:
    """The program has not changed this variable itself: it was given so, or is what the launcher tells it."""
    if _latin(name).startswith(b"LASTGOOD_"):
        return True
    before = given.get(os.fsdecode(_latin(name)))
    return value is not None and before is not None and os.fsencode(before) == _latin(value)


def _as_bytes(environment: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(os.fsencode(name), os.fsencode(value)) for name, value in environment.items()]


def _latin(text: str) -> bytes:
    return text.encode("latin-1")


def _path(text: str) -> str:
    return os.fsdecode(_latin(text))
