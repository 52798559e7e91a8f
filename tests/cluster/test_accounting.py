"""`lastgood history --sacct` asks a real accounting, and says what was done to the jobs."""

import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from lastgood.plan.history.answer import AccountingAnswer

from .slurm import SlurmCluster

ONCE = '[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || '
"""What follows is done in the first run only."""


def answer(cluster: SlurmCluster, *options: str) -> AccountingAnswer:
    words = [sys.executable, "-m", "lastgood", "history", "--sacct", *options, "--json"]
    done = subprocess.run(words, env=cluster.environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=AccountingAnswer, strict=True)


def test_it_says_what_was_done(cluster: SlurmCluster, shared: Path) -> None:
    begun = datetime.now().replace(microsecond=0) + timedelta(seconds=1)
    while datetime.now() < begun:
        time.sleep(0.05)

    def submit(script: str, *options: str, nodes: str = "n1") -> int:
        return cluster.submit(script, "--requeue", f"--nodelist={nodes}", *options, directory=shared)

    ends_well = submit("sleep 2", "--gres=gpu:2")
    fails = submit("exit 3")
    asks = submit(f"{ONCE}exit 75")
    array = submit("exit 1", "--array=1-5")
    runs_out = submit("sleep 1000", "--time=60")
    is_cancelled = submit("sleep 1000")
    is_requeued = submit(f"{ONCE}sleep 1000")
    gives_way = submit(f"{ONCE}sleep 1000", "--exclusive", nodes="n3")
    loses_node = submit(f"{ONCE}sleep 1000", "--nodes=2", nodes="n2,n4")
    for job in (runs_out, is_cancelled, is_requeued, gives_way, loses_node):
        cluster.wait_for(job, "RUNNING")
    never_runs = submit("sleep 1", "--exclusive", nodes="n3")
    cluster.cancel(never_runs)
    cluster.limit_in(runs_out, 1)
    cluster.cancel(is_cancelled)
    cluster.run("scontrol", "requeue", str(is_requeued))
    above = cluster.preempt(["n3"])
    cluster.kill_node("n4")
    cluster.run("scontrol", "update", "NodeName=n4", "State=DOWN", "Reason=test")
    jobs = {
        ends_well: ["COMPLETED"],
        fails: ["FAILED"],
        asks: ["REQUEUED", "COMPLETED"],
        runs_out: ["TIMEOUT"],
        is_cancelled: ["CANCELLED"],
        is_requeued: ["REQUEUED", "COMPLETED"],
        gives_way: ["PREEMPTED", "COMPLETED"],
        loses_node: ["NODE_FAIL", "COMPLETED"],
        above: ["COMPLETED"],
    }
    cluster.restore_node("n4")
    for job, states in jobs.items():
        cluster.wait_history(job, *states)
    cluster.wait_until(
        lambda: Counter(row["State"] for row in cluster.history(array)) == {"FAILED": 5}, "the array has failed", 60
    )

    said = answer(cluster, "--since", begun.isoformat())
    assert {ending.name: ending.runs for ending in said.endings} == {
        "completed": 6, "program error": 6, "time limit": 1, "cancelled by root": 1,
        "node failure": 1, "preempted": 1, "requeued": 1, "asked to run again": 1,
    }  # fmt: skip
    assert said.not_understood == []
    assert said.not_started == 1
    assert said.rate is not None
    assert (said.rate.failures, said.attempts.failures, said.attempts.failures_restarted) == (3, 3, 3)
    assert (said.attempts.jobs, said.attempts.restarted_jobs, said.attempts.most) == (14, 4, 2)
    assert [(burst.of, burst.runs) for burst in said.bursts] == [(f"job {array}", 5)]
    assert {code.exit_code: code.runs for code in said.exit_codes} == {"1:0": 5, "3:0": 1}
    rows = [row for job in [*jobs, array] for row in cluster.history(job)]
    ran_s = sum(_seconds(row["Elapsed"]) * len(_names(cluster, row["NodeList"])) for row in rows)
    assert abs(said.node_days * 86400 - ran_s) <= 2
    assert said.gpu_hours > 0
    (lost,) = [ending for ending in said.endings if ending.name == "node failure"]
    (row,) = [row for row in rows if row["State"] == "NODE_FAIL"]
    assert abs(lost.lost_node_hours * 3600 - 2 * _seconds(row["Elapsed"])) < 1e-6
    assert {group.name for group in said.partitions} == {"main", "high"}
    only = answer(cluster, "--since", begun.isoformat(), "--partition", "high")
    assert (only.runs, [group.name for group in only.partitions]) == (1, ["high"])

    # The same from a file that sacct wrote, with local times and all steps.
    file = shared / "jobs.txt"
    dumped = cluster.run("sacct", "-a", "--duplicates", "-p", "-S", begun.isoformat(), "-o", "ALL")
    assert dumped.returncode == 0, dumped.stderr
    file.write_text(dumped.stdout)
    read = answer(cluster, str(file))
    assert {ending.name: ending.runs for ending in read.endings} == {e.name: e.runs for e in said.endings}
    assert (read.attempts, read.not_understood) == (said.attempts, [])
    assert abs(read.node_days * 86400 - ran_s) < 1e-6
    assert read.step_rows > 0


def _seconds(elapsed: str) -> int:
    hours, minutes, seconds = map(int, elapsed.split(":"))
    return (hours * 60 + minutes) * 60 + seconds


def _names(cluster: SlurmCluster, nodes: str) -> list[str]:
    return cluster.run("scontrol", "show", "hostnames", nodes).stdout.split()
