"""`lastgood drill --slurm` on a real Slurm: what it causes is real, what it measures is there, and it leaves nothing."""

import os
import subprocess
import sys
import threading
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
    assert 20 <= killed.resumed_step <= killed.reached_step + 10
    assert killed.requeued_s is None, "the launcher restarts it inside its allocation"
    # Slurm's accounting has whole seconds.
    assert requeued.requeued_s is not None and requeued.first_step_s is not None
    assert requeued.first_step_s > 0 and requeued.requeued_s <= requeued.first_step_s + 1
    assert requeued.checkpoint_step is not None and requeued.resumed_step is not None
    assert requeued.resumed_step >= requeued.checkpoint_step > 0


ASK = """
import sys
what, name, directory = sys.argv[1:]
with open(directory + "/ask", "w") as ask:
    ask.write(what + " " + name)
with open(directory + "/done") as done:
    sys.exit(int(done.read()))
"""


def switch_nodes(cluster: SlurmCluster, directory: Path, did: list[str]) -> None:
    """What a site has for it: takes a node down, with Slurm told, and brings it up again, when it is asked to."""
    for _ in ("down", "up"):
        what, name = (directory / "ask").read_text().split()
        did.append(f"{what} {name}")
        if what == "down":
            cluster.kill_node(name)
            cluster.notice(name)
        else:
            cluster.restore_node(name)
        (directory / "done").write_text("0")


def test_a_node_goes_down_by_the_sites_command_and_is_up_again_afterwards(cluster: SlurmCluster, shared: Path) -> None:
    for name in ("ask", "done"):
        os.mkfifo(shared / name)
    (shared / "ask.py").write_text(ASK)
    did: list[str] = []
    site = threading.Thread(target=switch_nodes, args=(cluster, shared, did), daemon=True)
    site.start()
    hook = f"{sys.executable} {shared}/ask.py"
    answer, code = drill(
        cluster,
        shared,
        *("--until", "recovered", "--fault", "node@step=25"),
        *("--node-down", f"{hook} down {{node}} {shared}", "--node-up", f"{hook} up {{node}} {shared}"),
    )
    site.join(60)
    assert (code, answer.verdict) == (0, "pass"), answer
    (lost,) = answer.faults
    assert lost.has_effect and lost.is_undone
    assert lost.requeued_s is not None and lost.resumed_step is not None and lost.checkpoint_step is not None
    assert lost.resumed_step >= lost.checkpoint_step > 0
    node = lost.what.split()[1]
    assert did == [f"down {node}", f"up {node}"]
    assert "idle" in cluster.run("sinfo", "-h", "-n", node, "-o", "%T").stdout


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


def test_a_drill_that_is_told_to_stop_takes_its_job_with_it(cluster: SlurmCluster, shared: Path) -> None:
    (shared / "program.py").write_text(PROGRAM)
    with subprocess.Popen(
        [*(sys.executable, "-m", "lastgood", "drill", "--slurm", "--"), sys.executable, "program.py", "100000"],
        cwd=shared,
        env={**cluster.environment, "LASTGOOD_STATE_DIR": str(shared / "state"), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "runs on" in line:
                break
        process.terminate()
        process.stderr.read()
    assert process.returncode == 128 + 15
    assert cluster.run("squeue", "-h", "-a").stdout == "", "a job of the drill is left"


def test_a_rank_that_is_not_there_makes_the_answer_unknown(cluster: SlurmCluster, shared: Path) -> None:
    answer, code = drill(cluster, shared, "--until", "recovered", "--fault", "kill-rank,which=7@step=25")
    assert (code, answer.verdict) == (3, "unknown"), answer
    assert "no such process" in answer.faults[0].reason


def test_a_job_that_is_told_to_stop_saves_and_a_launcher_that_is_killed_loses_no_checkpoint(
    cluster: SlurmCluster, shared: Path
) -> None:
    answer, code = drill(
        cluster,
        shared,
        *("--until", "recovered", "--fault", "terminate,grace=20s@step=25", "--fault", "kill-launcher@after=0.5s"),
    )
    told, launcher = answer.faults
    assert (code, answer.verdict) == (0, "pass"), answer
    assert told.lost_steps == 0, "it saves before it stops"
    assert told.resumed_step is not None and told.resumed_step >= 25
    assert "requeued by hand" in launcher.what
    assert launcher.has_effect and launcher.resumed_step is not None and launcher.checkpoint_step is not None
    assert launcher.resumed_step >= launcher.checkpoint_step
