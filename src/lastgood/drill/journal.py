"""The drill's own journal, drill.jsonl: one line for each fault that was caused and healed, on disk before the drill goes on.

    {"kind": "injected", "at": 1796012203.18, "data": {"number": 1, "fault": "kill-rank", "victims": [4711], ...}}

Whoever finds a machine in a strange state after a drill reads here what was done to it, and whether it was undone.
"""

import time
from pathlib import Path
from typing import Any

from lastgood.core.events import Event, decode_lines, encode
from lastgood.store.durable import AppendFile, explained, flush_directory

FILE = "drill.jsonl"


class FileJournal:
    """Appends lines, each flushed to the device."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE
        with explained("make the drill's journal", self.path, safe="nothing was started"):
            self._file = AppendFile(self.path)
            flush_directory(directory)

    def note(self, kind: str, **data: Any) -> None:
        """Raises StorageError if it cannot be written: a fault that is not on record is not caused."""
        with explained("write the drill's journal", self.path):
            self._file.append(encode(Event(kind, time.time(), data)))
            self._file.flush()

    def close(self) -> None:
        self._file.close()


def not_undone(directory: Path) -> list[str]:
    """Why faults of this drill could not be undone, by its journal."""
    path = directory / FILE
    told = [event.data for event in read_journal(path)] if path.exists() else []
    return [str(problem) for data in told if (problem := data.get("problem"))]


def read_journal(path: Path) -> list[Event]:
    """The lines of a drill's journal; one that is torn is passed over."""
    return decode_lines(path.read_bytes())
