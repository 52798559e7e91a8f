"""The table: faults down, systems across."""

import json
import os
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from nine_faults.lab import Cell
from nine_faults.systems import System

Table = dict[str, dict[str, Cell]]
"""fault -> system -> cell"""


def markdown(table: Table, titles: dict[str, str], systems: list[System]) -> str:
    lines = ["| | " + " | ".join(system.title for system in systems) + " |"]
    lines.append("|---" * (len(systems) + 1) + "|")
    for fault, row in table.items():
        cells = [_shown(row[system.name]) for system in systems if system.name in row]
        lines.append(f"| **{fault}** {titles[fault]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _shown(cell: Cell) -> str:
    return cell.text.replace("|", "\\|")


def machine() -> dict[str, str]:
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": model or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "command": " ".join([Path(sys.executable).name, *sys.argv]),
    }


def versions(systems: list[System]) -> dict[str, str]:
    return {name: version for system in systems for name, version in system.versions().items()}


def write_json(path: Path, table: Table, about: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = {fault: {name: asdict(cell) for name, cell in row.items()} for fault, row in table.items()}
    path.write_text(json.dumps({**about, "table": cells}, indent=1) + "\n")
