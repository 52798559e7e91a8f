"""Telling the launcher what this program has imported, so that a standby can do it ahead of the next start."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from lastgood.core.imports import Imported, encode, imports_file


class ImportsReport:
    """Written once, after the first step that was done here: what that step needs has been imported by then."""

    def __init__(self, directory: str | None, rank: int, *, is_wanted: bool) -> None:
        self._path = Path(directory) / imports_file(rank) if directory and is_wanted else None
        self._began_at: int | None = None

    def at_step(self, step: int) -> None:
        """`step` steps are done. Never raises: a report that cannot be written means starts without a standby."""
        if self._path is None:
            return
        if self._began_at is None:
            self._began_at = step
        elif step > self._began_at:
            with suppress(OSError):
                # Not by rename: the reader takes nothing but the whole.
                fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                with open(fd, "wb") as file:
                    file.write(encode(_imported()))
            self._path = None


def _imported() -> Imported:
    main = vars(sys.modules["__main__"])
    spec = main.get("__spec__")
    return Imported(
        pid=os.getpid(),
        main_file=_text(main.get("__file__") or ""),
        main_module=getattr(spec, "name", ""),
        path=[_text(entry) for entry in sys.path if isinstance(entry, str)],
        standard_library=_text(os.path.dirname(os.__file__)),
        changed=_changed(),
        modules=_modules(),
    )


def _modules() -> list[tuple[str, str]]:
    """Those that can be imported by their name. (Some make their parts up, or have another name inside.)"""
    found = []
    for name, module in list(sys.modules.items()):
        # Through the dictionary: some modules answer for any attribute, by importing more.
        spec = module.__dict__.get("__spec__") if isinstance(module, ModuleType) else None
        if spec is None or spec.name != name or name == "__main__":
            continue
        if spec.has_location and isinstance(spec.origin, str):
            found.append((name, _text(spec.origin)))
        elif spec.origin in ("built-in", "frozen"):
            found.append((name, ""))
    return found


def _changed() -> dict[str, str | None]:
    try:
        entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        entries = []
    first = dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)
    now = dict(os.environb)
    found: dict[str, str | None] = {_latin(k): _latin(v) for k, v in now.items() if first.get(k) != v}
    return found | {_latin(name): None for name in first if name not in now}


def _text(path: str) -> str:
    return _latin(os.fsencode(path))


def _latin(data: bytes) -> str:
    return data.decode("latin-1")
