"""For programs under a drill, beside which it is copied: a small one would be over before a drill that is slow to look gets to
strike it. The drill's own journal says what it has done."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PLACE = Path.cwd().parent
_DISTURBED = ("drill", "again", "from-nothing")
"""What a drill calls the places of the runs that it strikes."""
_LIMIT_S = 120.0
"""Then the program goes on, and the drill says what it has missed."""
_began = time.monotonic()


def have_struck(count: int = 0) -> bool:
    """True if this run was struck by so many faults (0: by all that are planned), or is never to be struck."""
    if _PLACE.name not in _DISTURBED or time.monotonic() - _began > _LIMIT_S:
        return True
    planned = done = 0
    for line in _lines(_PLACE.parent / "drill.jsonl"):
        if line["kind"] == "planned":
            planned += 1
        elif line["kind"] == "started":
            done = 0
        elif line["kind"] in ("injected", "not_injected"):
            done += 1
    return done >= (count or planned)


def until_struck(count: int = 0, *, is_over: Callable[[], object] = lambda: False) -> None:
    """Stands still until then, or until `is_over`."""
    while not is_over() and not have_struck(count):
        time.sleep(0.02)


def _lines(journal: Path) -> list[dict[str, Any]]:
    # The last one may not be whole yet.
    return [json.loads(line) for line in journal.read_bytes().split(b"\n")[:-1] if line]
