"""The launcher's agents beside the command's step, under the real Slurm."""

import shlex
import signal
import sys
from pathlib import Path

import psutil

from lastgood.core.layout import Env
from lastgood.launch.process import name_of
from lastgood.store.attempts import read_events
from lastgood.store.jobdir import open_job
from lastgood.trial.processes import environment_of, words_of
from launch.step_programs import SIGNALLED, TOGETHER

from . import machine
from .slurm import SlurmCluster


def submit(
    cluster: SlurmCluster, shared: Path, source: str, *words: object, run: str = "", srun: str = "", sbatch: str = ""
) -> int:
    """Two nodes; the last line of the script is `lastgood run -- srun`."""
    program = shared / "ranks.py"
    program.write_text(source)
    command = shlex.join([sys.executable, str(program), *map(str, words)])
    lines = [
        "#!/bin/bash",
        f"export LASTGOOD_STATE_DIR={shared}/state OMP_NUM_THREADS=1",
        f"exec {sys.executable} -m lastgood run --job {shared}/job {run} -- srun {srun} {command}",
    ]
    options = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", f"--output={shared}/out.txt", *sbatch.split()]
    return cluster.submit("\n".join(lines), *options, directory=shared)


def output(shared: Path) -> str:
    path = shared / "out.txt"
    return path.read_text() if path.exists() else ""


def left_of(shared: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if str(shared) in " ".join(words_of(process)) or str(shared) in environment_of(process).get(Env.JOB, ""):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_after_a_rank_is_killed_both_nodes_restore_from_memory_in_the_same_allocation(
    cluster: SlurmCluster, shared: Path
) -> None:
    job = submit(cluster, shared, TOGETHER, 40, "damage", "die")
    assert cluster.wait_ended(job) == "COMPLETED", output(shared)
    started = [e.data for n in (1, 2) for e in read_events(open_job(shared / "job"), n) if e.kind == "started"]
    # On storage that step is damaged: whoever had read it there would have gone back to the one before.
    assert [(data["step"], data["is_from_memory"]) for data in started] == [(0, False), (20, True)]
    for rank in (0, 1):
        assert f"rank {rank} has {820 * (rank + 1)}" in output(shared)
    # No other attempt of Slurm.
    cluster.wait_history(job, "COMPLETED")
    cluster.wait_until(lambda: not left_of(shared), "nothing is left")


def test_a_rank_that_stands_still_on_the_second_node_is_found_and_says_where(
    cluster: SlurmCluster, shared: Path
) -> None:
    job = submit(cluster, shared, TOGETHER, 40, "hang", run="--hang-timeout 15s")
    assert cluster.wait_ended(job, 120) == "COMPLETED", output(shared)
    (hang,) = (e.data for e in read_events(open_job(shared / "job"), 1) if e.kind == "hang")
    assert hang["ranks"] == [0, 1], "asked for their stacks, on both nodes"
    assert "ranks.py" in output(shared).partition("lastgood: hang:")[2].partition("lastgood:")[0]
    assert "rank 1 on n2 begins at 20" in output(shared)
    cluster.wait_until(lambda: not left_of(shared), "nothing is left")


def test_when_srun_is_killed_the_ranks_save_and_the_job_goes_on_where_they_stopped(
    cluster: SlurmCluster, shared: Path
) -> None:
    job = submit(cluster, shared, TOGETHER, 150, "slow")
    cluster.wait_until(lambda: list(shared.glob("job/checkpoints/*/manifest.json")), "a checkpoint")
    sruns = [p for p in left_of(shared) if name_of(p) == "srun" and "lastgood.launch.agent" not in words_of(p)]
    # The second of its two processes ends the step where it sees that the first has died: it must not see it.
    machine.send(sruns, signal.SIGSTOP)
    machine.send(sorted(sruns, key=psutil.Process.create_time, reverse=True), signal.SIGKILL)
    assert cluster.wait_ended(job, 120) == "COMPLETED", output(shared)
    (stopped,) = (e.data for e in read_events(open_job(shared / "job"), 1) if e.kind == "stopping" and "step" in e.data)
    (started,) = (e.data for e in read_events(open_job(shared / "job"), 2) if e.kind == "started")
    assert started["step"] == stopped["saved_step"] == stopped["step"]
    cluster.wait_until(lambda: not left_of(shared), "nothing is left")


def test_when_the_launcher_is_killed_nothing_of_it_is_left(cluster: SlurmCluster, shared: Path) -> None:
    job = submit(cluster, shared, TOGETHER, 4000, "slow")
    cluster.wait_until(lambda: list(shared.glob("job/checkpoints/*/manifest.json")), "a checkpoint")
    (launcher,) = (p for p in left_of(shared) if "run" in words_of(p) and "srun" not in name_of(p))
    launcher.kill()
    cluster.wait_until(lambda: not left_of(shared), "nothing is left")
    assert cluster.wait_ended(job) == "FAILED"


def test_agents_take_nothing_from_the_command_and_are_not_ended_by_signals_for_it(
    cluster: SlurmCluster, shared: Path
) -> None:
    job = submit(
        cluster,
        shared,
        SIGNALLED,
        srun="--exclusive --cpus-per-task=4 --gres=gpu:2 --mem=1000",
        sbatch="--cpus-per-task=4 --gres=gpu:2 --mem=1000",
    )
    cluster.wait_until(lambda: all(f"rank {n} is ready" in output(shared) for n in (0, 1)), "both ranks run")
    assert "note: no agent" not in output(shared)
    # To all steps, and so to the agents, too.
    cluster.run("scancel", "--signal=USR2", str(job))
    cluster.wait_until(lambda: output(shared).count("SIGUSR2") >= 2, "both ranks got it")
    cluster.run("scancel", "--signal=USR1", str(job))
    cluster.wait_until(lambda: output(shared).count("SIGUSR1") >= 2, "both ranks got it")
    assert "the agents on" not in output(shared), "they live on"
    cluster.cancel(job)
    assert cluster.wait_ended(job).startswith("CANCELLED")
    for rank in (0, 1):
        assert f"rank {rank} on n" in output(shared)
    assert output(shared).count("SIGTERM\n") >= 2, output(shared)
    cluster.wait_until(lambda: not left_of(shared), "nothing is left")
