"""How long `lastgood history --sacct` takes for millions of rows, and how much memory; its totals must be exact.

    python bench/history.py [--rows 4000000] [--rounds 3]

The file is made here with a fixed seed, and its totals are counted while it is made, with NumPy and whole numbers:
nothing of the code that is measured is used for that. It holds what real ones hold: jobs that run again, arrays that
fail at once, rows of steps, jobs that wait, rows that are broken or cannot be true. The aim is 30 s for 4 million rows
and less than 2 GB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from table import RESULTS, about, machine, median, shown, spread, versions, write_json

SEED = 20260301
AIM_S = 30.0
AIM_BYTES = 2e9
BEGIN = 1_767_225_600  # 2026-01-01
SPAN_S = 330 * 86400
HEAD = "JobID|State|ExitCode|Submit|Start|End|ElapsedRaw|NNodes|NodeList|AllocTRES|Partition"

STATES = ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1000", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "REQUEUED"]
SHARES = [0.6, 0.2, 0.03, 0.04, 0.01, 0.005, 0.1, 0.015]
NAMES = [
    "completed",
    "program error",
    "time limit",
    "cancelled",
    "out of memory",
    "node failure",
    "preempted",
    "requeued",
]
AGAIN = {5, 6, 7}
"""States after which a job runs again."""
CODES = ["0:0", "1:0", "0:0", "0:0", "0:125", "0:0", "0:0", "0:0"]
PARTITIONS = ["gpu", "cpu", "preempt", "large"]
GPUS = np.array([8, 0, 4, 16])
"""On each node, by partition."""
NODES = np.array([1, 1, 1, 1, 2, 4, 8, 32])
BLOCK = 200_000
BURST = 250
"""Tasks of an array that fail at once; one such array in each block."""


class Totals:
    """What the answer must say."""

    def __init__(self) -> None:
        self.rows = self.steps = self.runs = self.jobs = self.restarted = self.bursts = 0
        self.waiting = self.broken = self.impossible = 0
        self.node_s = self.gpu_s = self.lost_node_s = self.lost_gpu_s = 0
        self.failures = self.failures_restarted = 0
        self.by_name: Counter[str] = Counter()
        self.partition_node_s: Counter[str] = Counter()
        self.partition_failures: Counter[str] = Counter()


def make(path: Path, rows: int) -> Totals:
    """Write the file, and count."""
    draw, totals = np.random.default_rng(SEED), Totals()
    with path.open("w", encoding="ascii") as file:
        file.write(HEAD + "\n")
        job = 1
        while totals.rows < rows:
            job = _block(file, draw, totals, job, min(BLOCK, rows - totals.rows))
    return totals


def _block(file: Any, draw: np.random.Generator, totals: Totals, job: int, rows: int) -> int:
    """Runs of jobs, one after another, then what is odd: exactly so many rows."""
    odd = {"steps": rows // 20, "waiting": rows // 200, "broken": rows // 1000, "impossible": rows // 1000}
    burst = BURST if rows >= 20 * BURST else 0
    count = rows - sum(odd.values()) - burst
    state = draw.choice(len(STATES), count, p=SHARES)
    ends_job = ~np.isin(state, list(AGAIN)) | (draw.random(count) < 0.1)
    ends_job[-1] = True
    number = job + np.concatenate([[0], np.cumsum(ends_job)[:-1]])
    run_s = draw.integers(60, 4 * 86400, count) // draw.choice([1, 10, 100], count).clip(1)
    run_s = np.maximum(run_s, 60)
    nodes = draw.choice(NODES, count)
    place = draw.choice(len(PARTITIONS), count, p=[0.3, 0.5, 0.15, 0.05])
    # A job's next run begins after its last one: one clock for all jobs of the block is enough for that.
    begun = BEGIN + (np.arange(count) * 7919) % (SPAN_S // 2)
    wait_s = draw.integers(1, 3600, count)
    start = begun.copy()
    is_next = np.concatenate([[False], ~ends_job[:-1]])
    for i in np.flatnonzero(is_next):
        start[i] = start[i - 1] + run_s[i - 1] + wait_s[i]
    end = start + run_s
    moments = [np.datetime_as_string(seconds.astype("datetime64[s]")) for seconds in (start - wait_s, start, end)]
    first_node = draw.integers(1, 1000, count)
    for n, s, submit, began, ended, took, width, node, p in zip(
        number, state, *moments, run_s, nodes, first_node, place, strict=True
    ):
        hosts = f"n{node:04d}" if width == 1 else f"n[{node:04d}-{node + width - 1:04d}]"
        gpus = GPUS[p] * width
        tres = (
            f"billing=1,cpu=64,gres/gpu:h100={gpus},gres/gpu={gpus},mem=512G" if gpus else "billing=1,cpu=64,mem=512G"
        )
        file.write(
            f"{n}|{STATES[s]}|{CODES[s]}|{submit}|{began}|{ended}|{took}|{width}|{hosts}|{tres},node={width}|{PARTITIONS[p]}\n"
        )
    _count(totals, state, ends_job, run_s, nodes, place)
    last = int(number[-1])
    day = "2026-06-01T00:00:0"
    for i in range(burst):
        file.write(f"{last + 1}_{i}|FAILED|2:0|{day}0|{day}0|{day}5|5|1|n0001|cpu=1,mem=1G,node=1|cpu\n")
    for i in range(odd["steps"]):
        file.write(f"{int(number[i])}.batch|COMPLETED|0:0|{day}0|{day}0|{day}5|5|1|n0001|cpu=1,mem=1G,node=1|\n")
    for i in range(odd["waiting"]):
        file.write(f"{last + 2 + i}|PENDING|0:0|{day}0|Unknown|Unknown|0|4|None assigned||gpu\n")
    for i in range(odd["broken"]):
        file.write(f"{last + 2 + i}|COMPLETED|0:0|{day}0|a|b|c|{day}0|{day}5|5|1|n0001|cpu=1|cpu\n")
    for i in range(odd["impossible"]):
        file.write(f"{last + 2 + i}|COMPLETED|0:0|{day}5|{day}5|2026-05-01T00:00:00|5|1|n0001|cpu=1,node=1|cpu\n")
    totals.rows += rows
    totals.steps += odd["steps"]
    totals.waiting += odd["waiting"]
    totals.broken += odd["broken"]
    totals.impossible += odd["impossible"]
    if burst:
        totals.bursts += 1
        totals.runs += burst
        totals.jobs += burst
        totals.node_s += 5 * burst
        totals.partition_node_s["cpu"] += 5 * burst
        totals.by_name["program error"] += burst
    return last + 2 + max(odd.values())


def _count(
    totals: Totals,
    state: "np.ndarray[Any, Any]",
    ends_job: "np.ndarray[Any, Any]",
    run_s: "np.ndarray[Any, Any]",
    nodes: "np.ndarray[Any, Any]",
    place: "np.ndarray[Any, Any]",
) -> None:
    node_s = run_s * nodes
    gpu_s = node_s * GPUS[place]
    failed = np.isin(state, list(AGAIN))
    totals.runs += len(state)
    lengths = np.diff(np.concatenate([[-1], np.flatnonzero(ends_job)]))
    totals.jobs += len(lengths)
    totals.restarted += int((lengths > 1).sum())
    totals.node_s += int(node_s.sum())
    totals.gpu_s += int(gpu_s.sum())
    totals.lost_node_s += int(node_s[failed].sum())
    totals.lost_gpu_s += int(gpu_s[failed].sum())
    totals.failures += int(failed.sum())
    totals.failures_restarted += int((failed & ~ends_job).sum())
    for code, name in enumerate(NAMES):
        totals.by_name[name] += int((state == code).sum())
    for code, name in enumerate(PARTITIONS):
        totals.partition_node_s[name] += int(node_s[place == code].sum())
        totals.partition_failures[name] += int((failed & (place == code)).sum())


def differences(totals: Totals, answer: dict[str, Any]) -> list[str]:
    """What the answer says otherwise; seconds are whole, so that they are compared exactly."""
    attempts = answer["attempts"]
    pairs: list[tuple[str, object, object]] = [
        ("rows", totals.rows, answer["rows"]),
        ("steps", totals.steps, answer["step_rows"]),
        ("runs", totals.runs, answer["runs"]),
        ("waiting", totals.waiting, answer["not_started"]),
        ("jobs", totals.jobs, attempts["jobs"]),
        ("restarted jobs", totals.restarted, attempts["restarted_jobs"]),
        ("failed runs", totals.failures, attempts["failures"]),
        ("failed runs with another", totals.failures_restarted, attempts["failures_restarted"]),
        ("failures", totals.failures, answer["rate"]["failures"]),
        ("node-seconds", totals.node_s, round(answer["node_days"] * 86400)),
        ("GPU-seconds", totals.gpu_s, round(answer["gpu_hours"] * 3600)),
        ("lost node-seconds", totals.lost_node_s, round(answer["lost_node_hours"] * 3600)),
        ("lost GPU-seconds", totals.lost_gpu_s, round(answer["lost_gpu_hours"] * 3600)),
        ("rows not understood", [totals.broken, totals.impossible], [m["rows"] for m in answer["not_understood"]]),
        (
            "by ending",
            {n: c for n, c in totals.by_name.items() if c},
            {e["name"]: e["runs"] for e in answer["endings"]},
        ),
        ("failures by partition", dict(totals.partition_failures), _of(answer, "failures", 1)),
        ("node-seconds by partition", dict(totals.partition_node_s), _of(answer, "node_days", 86400)),
        ("trend", totals.failures, sum(period["failures"] for period in answer["trend"])),
        ("events of FAILED", totals.by_name["program error"] - totals.bursts * (BURST - 1), _events(answer)),
    ]
    return [f"{what}: {true} in the file, {said} in the answer" for what, true, said in pairs if true != said]


def _of(answer: dict[str, Any], member: str, times: int) -> dict[str, int]:
    return {group["name"]: round(group[member] * times) for group in answer["partitions"]}


def _events(answer: dict[str, Any]) -> int:
    return next(e["events"] for e in answer["endings"] if e["name"] == "program error")


def measured(path: Path) -> tuple[float, float, int, dict[str, Any]]:
    """(seconds, seconds of all processors, peak of resident bytes, the answer) of the command as a user runs it."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "lastgood", "history", "--sacct", str(path), "--json"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    taken_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"the command ended with {process.returncode}")
    return taken_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, json.loads(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="where the file is made")
    parser.add_argument("--keep", action="store_true", help="write the result to bench/results/history.json")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lgh-", dir=parsed.directory) as directory:
        path = Path(directory) / "jobs.txt"
        began = time.perf_counter()
        totals = make(path, parsed.rows)
        size = path.stat().st_size
        print(f"made {totals.rows:,} rows, {size / 1e6:.0f} MB, in {time.perf_counter() - began:.0f} s", flush=True)
        seconds, processor_s, peaks, wrong = [], [], [], []
        for _ in range(parsed.rounds):
            taken_s, of_processors_s, peak, answer = measured(path)
            seconds.append(taken_s)
            processor_s.append(of_processors_s)
            peaks.append(peak)
            wrong += differences(totals, answer)
            print(f"{taken_s:.1f} s, of all processors {of_processors_s:.1f} s, {peak / 1e6:.0f} MB", flush=True)
    where = {**machine(parsed.directory), "load": f"{os.getloadavg()[0]:.1f} in the last minute, this included"}
    print(f"\nseconds of all processors {shown(processor_s, 1)}: what a quiet machine needs at most")
    print(f"seconds {shown(seconds, 1)}, aim {AIM_S:.0f}; peak {max(peaks) / 1e6:.0f} MB, aim {AIM_BYTES / 1e6:.0f}")
    print(f"totals: {wrong or 'exact'}")
    print(about(where))
    if parsed.keep:
        facts: dict[str, object] = {
            "rows": totals.rows,
            "bytes": size,
            "seconds": {"median": median(seconds), "spread": spread(seconds)},
            "processor_seconds": {"median": median(processor_s), "spread": spread(processor_s)},
            "peak_bytes": max(peaks),
            "totals_exact": not wrong,
            "machine": where,
            "versions": versions(["lastgood", "polars", "numpy"]),
        }
        write_json(RESULTS / "history.json", facts)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
