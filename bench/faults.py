"""What today's ways of saving and resuming do under nine faults, as a table.

    python bench/faults.py [--quick] [--systems lastgood,torch-in-place] [--faults F1,F6]

Each cell is decided from what happened: the weights at the end against those of an uninterrupted run, the
step that a start resumed from, and exit codes. docs/explanation/nine-faults.md says how each fault is caused
and what the words mean; bench/requirements.txt lists the other systems, which are left out where they
are not installed. Details of each case go to bench/results/faults.json.

The exit code is 0 if lastgood was right in all cells that were tried, and 1 otherwise.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from nine_faults import damage, kills, order, report, storage
from nine_faults.lab import Cell, Lab, NotTriedError, Scale
from nine_faults.systems import SYSTEMS, System

FAULTS: dict[str, tuple[str, Callable[[Lab], Cell]]] = {
    "F1": ("random SIGKILLs, 200 steps", kills.random_kills),
    "F2": ("SIGKILL inside a save, at each call", kills.kills_in_save),
    "F3": ("newest truncated to half", damage.truncated),
    "F4": ("one bit flipped", damage.flipped),
    "F5": ("small files deleted, one at a time", damage.deleted),
    "F6": ("folder gone, empty; then back", storage.folder_gone),
    "F7": ("disk of 1.5 checkpoints; then space", storage.disk_full),
    "F8": ("SIGTERM, 2 s", kills.sigterm),
    "F9": ("order after a mid-epoch resume", order.order_after_resume),
}
QUICK = Scale(kills=3, points=5, flips=1)


def main() -> int:
    arguments = _parse()
    chosen = [system for system in SYSTEMS if system.name in arguments.systems]
    installed = []
    for system in chosen:
        if missing := system.missing():
            _say(f"{system.name}: left out, not installed: {', '.join(missing)}")
        else:
            installed.append(system)
    table: report.Table = {fault: {} for fault in arguments.faults}
    began = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="nine-faults-"))
    try:
        for system in installed:
            _try_system(system, root / system.name, QUICK if arguments.quick else Scale(), table)
    finally:
        if arguments.keep:
            _say(f"traces and logs of all runs are in {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)
    about = {**report.machine(), "took_s": round(time.monotonic() - began), "versions": report.versions(installed)}
    report.write_json(arguments.output, table, about)
    titles = {name: title for name, (title, _) in FAULTS.items()}
    print(report.markdown(table, titles, installed))
    _say(f"took {about['took_s']} s; details in {arguments.output}")
    wrong = [f"{fault} {s.name}" for fault, row in table.items() for s in installed if _is_wrong(s, row[s.name])]
    if wrong:
        _say(f"lastgood was NOT right: {', '.join(wrong)}")
    return 1 if wrong else 0


def _try_system(system: System, root: Path, scale: Scale, table: report.Table) -> None:
    lab = Lab(system, root, scale)
    try:
        try:
            lab.prepare()
        except RuntimeError as error:
            for row in table.values():
                row[system.name] = Cell(f"could not be judged: {error}", None)
            return
        for fault, row in table.items():
            began = time.monotonic()
            row[system.name] = _try_fault(FAULTS[fault][1], lab)
            _say(f"{system.name} {fault}: {row[system.name].text} ({time.monotonic() - began:.0f} s)")
    finally:
        lab.close()


def _try_fault(fault: Callable[[Lab], Cell], lab: Lab) -> Cell:
    try:
        return fault(lab)
    except NotTriedError as reason:
        return Cell(f"not tried: {reason}", None)
    except (RuntimeError, OSError) as error:
        return Cell(f"could not be judged: {error}", None)


def _is_wrong(system: System, cell: Cell) -> bool:
    return system.is_ours and (cell.is_right is False or cell.text.startswith("could not be judged"))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [system.name for system in SYSTEMS]
    parser.add_argument("--systems", type=_several(names), default=names, help=f"of {', '.join(names)}")
    parser.add_argument("--faults", type=_several(list(FAULTS)), default=list(FAULTS), help="of F1 to F9")
    parser.add_argument("--quick", action="store_true", help="fewer kills, kill points and flipped bits")
    parser.add_argument("--keep", action="store_true", help="keep the directory with all traces and logs")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "faults.json")
    return parser.parse_args()


def _several(allowed: list[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",")]
        if unknown := [word for word in words if word not in allowed]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(allowed)}")
        return words

    return parse


if __name__ == "__main__":
    sys.exit(main())
