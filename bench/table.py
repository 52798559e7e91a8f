"""What all benchmarks share: the median with its spread, tables, the machine, and the file of results."""

import importlib.metadata
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil
from nine_faults.report import machine as processor

RESULTS = Path(__file__).parent / "results"


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def shown(values: Sequence[float], digits: int = 2, unit: str = "") -> str:
    """The median, and from where to where the values go.

    >>> shown([0.31, 0.3, 0.5])
    '0.31 (0.30-0.50)'
    """
    if not values:
        return "-"
    low, high = spread(values)
    if len(values) == 1:
        return f"{values[0]:.{digits}f}{unit}"
    return f"{median(values):.{digits}f}{unit} ({low:.{digits}f}-{high:.{digits}f})"


def size(count: int) -> str:
    """
    >>> size(1610612736), size(32768000)
    ('1.6 GB', '33 MB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def machine(directory: Path) -> dict[str, str]:
    """Where the numbers come from: processor, memory, and the file system and device below `directory`."""
    mount = max(
        (part for part in psutil.disk_partitions(all=True) if directory.resolve().is_relative_to(part.mountpoint)),
        key=lambda part: len(part.mountpoint),
    )
    return {
        **processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "storage": f"{mount.fstype} on {mount.device}",
    }


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """Of those that are installed."""
    found = {}
    for name in distributions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def about(facts: dict[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in facts.items())


def write_json(path: Path, content: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
