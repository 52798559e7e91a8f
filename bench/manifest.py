"""How the documents of a checkpoint grow with the number of ranks: time and memory of committing, reading and verifying.

    python bench/manifest.py [--ranks 1024,4096,16384] [--arrays 1000]

One checkpoint for each number of ranks, with as many arrays in each rank's part, written through the library
as the ranks would write it. The arrays themselves are tiny, since their bytes are not the question. Two kinds:
arrays of each rank's own (as sharded training has them), and arrays that are equal on all ranks and stored once
(as replicated training has them). Each phase runs in a process of its own, whose peak memory is reported:

    part     what one rank writes (its share of all; ranks do this side by side), without flushing
    commit   what rank 0 does when all parts are there: read each, build the manifest, write it, flush, rename
    open     read the manifest and check it
    start    what one rank does to resume: find the newest checkpoint, read its own arrays
    verify   read every part and every array's bytes and check them, as `lastgood verify` does

The exponent is the slope of log(time) over log(ranks): 1 is linear. The goal is that commit, open and verify
together stay under 60 s, and every phase under 4 GB, for 16,384 ranks of 1,000 arrays.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import goals
import table

from lastgood.core.layout import checkpoint_name
from lastgood.core.tensorfile import ArraySpec
from lastgood.frameworks.numpy_adapter import FRAMEWORK
from lastgood.runtime.ports import OneRank
from lastgood.runtime.resume import Resumer
from lastgood.store.attempts import claim_attempt
from lastgood.store.jobdir import create_job, open_job
from lastgood.store.reader import open_checkpoint
from lastgood.store.writer import CheckpointWriter

STEP, ATTEMPT = 1000, 1
GOAL_S, GOAL_BYTES = 60.0, 4e9
OWN, REPLICATED = "own", "replicated"
PHASES = ("part", "commit", "open", "start", "verify")


def main() -> int:
    arguments = _parse()
    if arguments.phase:
        print(json.dumps(_measured(arguments)))
        return 0
    results: dict[str, dict[int, dict[str, dict[str, float]]]] = {OWN: {}, REPLICATED: {}}
    for ranks in arguments.ranks:
        for kind in results:
            results[kind][ranks] = _one_checkpoint(arguments, kind, ranks)
    print(f"{arguments.arrays} arrays in each rank's state; time, and peak memory of the process\n")
    for kind, by_ranks in results.items():
        print(
            f"Arrays of each rank's own:\n\n{_shown(by_ranks)}\n"
            if kind == OWN
            else f"Replicated:\n\n{_shown(by_ranks)}\n"
        )
    facts = table.machine(arguments.directory)
    print(table.about(facts) + "\n")
    verdicts = [verdict for kind, by_ranks in results.items() for verdict in _judged(kind, by_ranks[max(by_ranks)])]
    print(goals.shown(verdicts))
    found = {"arrays": arguments.arrays, "results": results, "verdicts": verdicts}
    table.write_json(arguments.output, {**facts, **found})
    return 0


def _one_checkpoint(arguments: argparse.Namespace, kind: str, ranks: int) -> dict[str, dict[str, float]]:
    directory = Path(tempfile.mkdtemp(prefix="manifest-", dir=arguments.directory))
    try:
        found = {}
        for phase in PHASES:
            options = ["--phase", phase, "--kind", kind, "--ranks", str(ranks), "--arrays", str(arguments.arrays)]
            command = [sys.executable, __file__, *options, "--directory", str(directory)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=arguments.limit_s)
            found[phase] = json.loads(done.stdout)
            print(f"{kind} {ranks} {phase}: {found[phase]['s']:.2f} s", file=sys.stderr, flush=True)
        return found
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _shown(by_ranks: dict[int, dict[str, dict[str, float]]]) -> str:
    rows = []
    for ranks, phases in by_ranks.items():
        cells = [f"{1000 * phases['part']['s'] / ranks:.1f} ms, {phases['part']['bytes'] / ranks / 1e3:.0f} kB"]
        cells += [f"{phases[name]['s']:.2f} s, {phases[name]['peak_bytes'] / 1e6:.0f} MB" for name in PHASES[1:]]
        rows.append([f"{ranks:,}", *cells, f"{phases['commit']['bytes'] / 1e6:.2f} MB"])
    if len(by_ranks) > 1:
        powers = [
            f"{_exponent([(ranks, phases[name]['s']) for ranks, phases in by_ranks.items()]):.2f}" for name in PHASES
        ]
        rows.append(["exponent", *powers, ""])
    return table.markdown(["ranks", "part (each)", *PHASES[1:], "manifest"], rows)


def _exponent(points: list[tuple[int, float]]) -> float:
    """The slope of the least-squares line through the logarithms."""
    logs = [(math.log(x), math.log(max(y, 1e-9))) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def _judged(kind: str, phases: dict[str, dict[str, float]]) -> list[goals.Verdict]:
    took_s = sum(phases[name]["s"] for name in ("commit", "open", "verify"))
    most = max(phase["peak_bytes"] for phase in phases.values())
    return [
        goals.at_most(f"{kind}: commit, open and verify, s", took_s, GOAL_S),
        goals.at_most(f"{kind}: peak memory of any phase, GB", most / 1e9, GOAL_BYTES / 1e9),
    ]


def _measured(arguments: argparse.Namespace) -> dict[str, float]:
    """One phase, in this process."""
    phase: Callable[[Path, str, int, int], int] = globals()[f"_{arguments.phase}"]
    (ranks,) = arguments.ranks
    began = time.perf_counter()
    size = phase(arguments.directory, arguments.kind, ranks, arguments.arrays)
    return {"s": time.perf_counter() - began, "bytes": size, "peak_bytes": _peak_bytes()}


def _peak_bytes() -> int:
    # Not ru_maxrss, which counts what the parent had when it started this process.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise SystemExit("this kernel does not tell the peak memory of a process")


def _names(arrays: int) -> list[str]:
    return [f"layers.{i // 10}.block.{i % 10}.weight" for i in range(arrays)]


def _part(directory: Path, kind: str, ranks: int, arrays: int) -> int:
    # Thousands of nodes flush their own files side by side; here they would wait for one disk in a row.
    os.fsync = lambda fd: None
    job = create_job(directory / "job")
    claim_attempt(job, "")
    names = _names(arrays)
    data = memoryview(bytes(16))
    specs = [ArraySpec(f"model.{name}", "F32", (4,)) for name in names]
    entries = {"model": {name: {"$array": f"model.{name}", "kind": "numpy"} for name in names}}
    writer = CheckpointWriter(job, STEP, ATTEMPT)
    size = 0
    for rank in range(ranks):
        mine = specs if kind == OWN else specs[rank::ranks]
        part = writer.write_part(
            rank,
            [(spec, data) for spec in mine],
            _with_position(entries, rank),
            shared=[] if kind == OWN else [spec.name for spec in mine],
        )
        size += part.bytes + part.data_bytes
    return size


def _with_position(entries: dict[str, object], rank: int) -> dict[str, object]:
    """What no two ranks have in common: their place in the data."""
    return {**entries, "lastgood.progress": {"step": STEP, "position": {"epoch": 0}}, "data": {"offset": rank}}


def _commit(directory: Path, kind: str, ranks: int, arrays: int) -> int:
    writer = CheckpointWriter(open_job(directory / "job"), STEP, ATTEMPT)
    writer.commit(ranks)
    return (writer.directory / "manifest.json").stat().st_size


def _open(directory: Path, kind: str, ranks: int, arrays: int) -> int:
    return open_checkpoint(open_job(directory / "job"), checkpoint_name(STEP, ATTEMPT)).manifest.world_size


class Anything:
    """A program that every state fits."""

    warning = ""

    def compare(self, restored: object) -> None:
        return

    def places(self, restored: object, name_of: object) -> list[tuple[object, memoryview]]:
        return []


def _start(directory: Path, kind: str, ranks: int, arrays: int) -> int:
    stand_in = OneRank()
    stand_in.world_size = ranks
    found = Resumer(open_job(directory / "job"), ATTEMPT + 1, stand_in, [FRAMEWORK]).find([], False, Anything())
    assert found.restored is not None
    assert len(found.restored.entries["model"]) == arrays
    return arrays


def _verify(directory: Path, kind: str, ranks: int, arrays: int) -> int:
    problems = open_checkpoint(open_job(directory / "job"), checkpoint_name(STEP, ATTEMPT)).verify()
    assert not problems, problems
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(word) for word in text.split(",")]  # noqa: E731 - a name for the help's sake only
    parser.add_argument("--ranks", type=numbers, default=[1024, 4096, 16384], help="default: 1024,4096,16384")
    parser.add_argument("--arrays", type=int, default=1000, help="arrays in each rank's state (default: 1000)")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="where to write")
    parser.add_argument("--limit-s", type=float, default=1800.0, help="end a phase that takes longer")
    parser.add_argument("--output", type=Path, default=table.RESULTS / "manifest.json")
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=(OWN, REPLICATED), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
