"""`lastgood drill --slurm` on a real Slurm: what it causes is real, what it measures is there, and it leaves nothing."""

import subprocess
import sys
from pathlib import Path

import msgspec

from lastgood.drill.answer import DrillAnswer

from .slurm import SlurmCluster

PROGRAM = """
import os, sys, time
import numpy as np
import lastgood

x = np.zeros(1000)
run = lastgood.Run({"x": x}, every=10)
for step in run.steps(int(sys.argv[1])):
    x += np.sqrt(step)
    print(f"step {step}", flush=True)
    time.sleep(0.02)
"""


def drill(cluster: SlurmCluster, shared: Path, *words: object) -> tuple[DrillAnswer, int]:
    """What it answers, after making sure that nothing of it is left."""
    (shared / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "lastgood", "drill", "--slurm", "--json", "--sbatch=--time=10", "--limit", "4min"),
            *("--step-pattern", r"step (\d+)", *map(str, words), "--", sys.executable, "program.py", "3000"),
        ],
        cwd=shared,
        env={**cluster.environment, "LASTGOOD_STATE_DIR": str(shared / "state"), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    assert cluster.run("squeue", "-h", "-a").stdout == "", "a job of the drill is left"
    print(done.stderr)
    return msgspec.json.decode(done.stdout, type=DrillAnswer), done.returncode


def test_a_killed_rank_and_a_requeue_are_survived_and_measured(cluster: SlurmCluster, shared: Path) -> None:
    answer, code = drill(
        cluster, shared, "--until", "recovered", "--fault", "kill-rank@step=25", "--fault", "requeue@after=0.5s"
    )
    assert (code, answer.verdict) == (0, "pass"), answer
    killed, requeued = answer.faults
    assert (killed.has_effect, requeued.has_effect) == (True, True)
    assert killed.ended_as == "killed"
    assert killed.resumed_step is not None and killed.reached_step is not None
    assert 20 <= killed.resumed_step <= killed.reached_step
    assert killed.requeued_s is None, "the launcher restarts it inside its allocation"
    # Slurm's accounting has whole seconds.
    assert requeued.requeued_s is not None and requeued.first_step_s is not None
    assert requeued.first_step_s > 0 and requeued.requeued_s <= requeued.first_step_s + 1
    assert requeued.checkpoint_step is not None and requeued.resumed_step is not None
    assert requeued.resumed_step >= requeued.checkpoint_step > 0


def test_a_node_goes_down_by_the_sites_command_and_is_up_again_afterwards(cluster: SlurmCluster, shared: Path) -> None:
    down, up = shared / "down.py", shared / "up.py"
    conf = cluster.directory / "slurm.conf"
    # What a site would do with its power control: all of the node is killed, and Slurm told.
    down.write_text(NODE_DOWN.format(conf=str(conf), log=str(cluster.directory)))
    up.write_text("import sys\nopen(sys.argv[1] + '.up', 'w').close()\n")
    answer, code = drill(
        cluster,
        shared,
        *("--until", "recovered", "--fault", "node@step=25"),
        *("--node-down", f"{sys.executable} {down} {{node}}"),
        *("--node-up", f"{sys.executable} {up} {shared}/{{node}}"),
    )
    assert (code, answer.verdict) == (0, "pass"), answer
    (lost,) = answer.faults
    assert lost.has_effect and lost.is_undone
    assert lost.requeued_s is not None and lost.resumed_step is not None and lost.checkpoint_step is not None
    assert lost.resumed_step >= lost.checkpoint_step > 0
    (node,) = [path.stem for path in shared.glob("*.up")]
    assert node in lost.what


NODE_DOWN = """
import subprocess, sys, psutil
name = sys.argv[1]
for again in range(2):
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            is_here = environment.get("SLURM_CONF") == {conf!r} and (
                environment.get("SLURMD_NODENAME") == name or environment.get("TEST_CLUSTER_NODE", "").endswith(":" + name)
            )
            if is_here and process.pid != psutil.Process().pid:
                process.kill()
        except psutil.Error:
            pass
subprocess.run(["scontrol", "update", "NodeName=" + name, "State=DOWN", "Reason=drill"], check=True)
"""


def test_what_cannot_be_caused_there_is_said_before_anything_is_submitted(cluster: SlurmCluster, shared: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lastgood", "drill", "--slurm", "--fault", "disk-full", "--", "true"],
        cwd=shared,
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "disk-full" in done.stderr and "requeue" in done.stderr
    assert cluster.run("squeue", "-h", "-a").stdout == ""


def test_a_rank_that_is_not_there_makes_the_answer_unknown(cluster: SlurmCluster, shared: Path) -> None:
    answer, code = drill(cluster, shared, "--until", "recovered", "--fault", "kill-rank,which=7@step=25")
    assert (code, answer.verdict) == (3, "unknown"), answer
    assert "no such process" in answer.faults[0].reason
