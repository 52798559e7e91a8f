"""A journal as it is, read by nobody's code but this, for tests that look at it while it is written."""

import json
from pathlib import Path
from typing import Any


def whole_lines(journal: Path) -> list[dict[str, Any]]:
    """Its lines so far. The last one may have been read in the middle of its write: then it has no end yet, and it is
    left to the next look. A line that has an end is told whole, or this raises."""
    if not journal.exists():
        return []
    return [json.loads(line) for line in journal.read_bytes().split(b"\n")[:-1] if line]
