"""The test cluster is what it claims: a Slurm that requeues, preempts, loses nodes and comes back."""

import subprocess
import sys
from pathlib import Path

import psutil

from lastgood.launch.process import name_of

from .machine import is_alive
from .slurm import SlurmCluster

# Says where and how it was started, and goes on until it is killed.
RUNNER = """
import os, signal, sys, time
def note(*words):
    with open(sys.argv[1], "a") as log:
        print(*words, file=log, flush=True)
signal.signal(signal.SIGTERM, lambda *_: note("TERM", os.environ["SLURMD_NODENAME"]))
note("ready", os.environ["SLURMD_NODENAME"], os.environ.get("SLURM_RESTART_COUNT", "0"))
while True:
    time.sleep(0.05)
"""


def run_forever(cluster: SlurmCluster, shared: Path, *options: str, tasks: int = 1) -> tuple[int, Path]:
    """A job whose tasks, one a node, log to the file that is returned; all are ready on return."""
    # It ignores SIGTERM, so each end takes as long as that.
    cluster.configure(KillWait=5)
    log, program = shared / "log", shared / "runner.py"
    program.write_text(RUNNER)
    script = f"exec srun {sys.executable} {program} {log}"
    job_id = cluster.submit(script, f"--nodes={tasks}", f"--ntasks={tasks}", *options, directory=shared)
    wait_for_lines(cluster, job_id, log, "ready", tasks)
    return job_id, log


def wait_for_lines(cluster: SlurmCluster, job_id: int, log: Path, word: str, count: int) -> list[str]:
    def lines() -> list[str]:
        return [line for line in log.read_text().splitlines() if line.startswith(word)] if log.exists() else []

    cluster.wait_until(lambda: len(lines()) >= count, f"{count} lines '{word}' in {log.name}", 90, job_id)
    return lines()


def output_of(shared: Path, job_id: int) -> str:
    return (shared / f"slurm-{job_id}.out").read_text()


def test_steps_run_on_all_nodes_with_their_gpus(cluster: SlurmCluster, shared: Path) -> None:
    job_id = cluster.submit(
        "srun bash -c 'echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'",
        "--nodes=4",
        "--ntasks-per-node=1",
        "--gpus-per-node=2",
        directory=shared,
    )
    assert cluster.wait_ended(job_id) == "COMPLETED"
    assert sorted(output_of(shared, job_id).splitlines()) == [f"n{number} 0,1" for number in range(1, 5)]


def test_an_exit_code_that_is_listed_brings_the_job_back(cluster: SlurmCluster, shared: Path) -> None:
    job_id = cluster.submit(
        'echo "restart ${SLURM_RESTART_COUNT:-0}"; [ "$SLURM_RESTART_COUNT" ] || exit 75', directory=shared
    )
    assert cluster.wait_ended(job_id) == "COMPLETED"
    assert output_of(shared, job_id).splitlines() == ["restart 0", "restart 1"]
    attempts = cluster.wait_history(job_id, "REQUEUED", "COMPLETED")
    assert attempts[0]["ExitCode"] == "75:0"


def test_the_job_of_a_dead_node_comes_back_elsewhere(cluster: SlurmCluster, shared: Path) -> None:
    job_id, log = run_forever(cluster, shared, tasks=2)
    assert cluster.nodes_of(job_id) == ["n1", "n2"]
    processes = cluster.processes_of_node("n2")
    assert processes
    cluster.kill_node("n2")
    assert not [process for process in processes if is_alive(process)]
    cluster.wait_restarted(job_id)
    assert "n2" not in cluster.nodes_of(job_id)
    assert {line.split()[2] for line in wait_for_lines(cluster, job_id, log, "ready", 4)[2:]} == {"1"}
    cluster.wait_history(job_id, "NODE_FAIL", "RUNNING")
    cluster.restore_node("n2")
    again = cluster.submit("true", "--nodelist=n2", directory=shared)
    assert cluster.wait_ended(again) == "COMPLETED"


def test_a_node_that_is_cut_off_goes_on_working_while_its_job_runs_elsewhere(
    cluster: SlurmCluster, shared: Path
) -> None:
    job_id, log = run_forever(cluster, shared)
    (old,) = [process for process in cluster.processes_of_node("n1") if name_of(process) != "srun"]
    cluster.cut_off_node("n1")
    cluster.notice("n1")
    cluster.wait_restarted(job_id)
    cluster.wait_history(job_id, "NODE_FAIL", "RUNNING")
    wait_for_lines(cluster, job_id, log, "ready", 2)
    assert "n1" not in cluster.nodes_of(job_id)
    assert is_alive(old) and old.status() != psutil.STATUS_STOPPED
    cluster.kill_cut_off("n1")
    assert not is_alive(old)


def test_preemption_without_grace_ends_all_at_once(cluster: SlurmCluster, shared: Path) -> None:
    job_id, log = run_forever(cluster, shared)
    winner = cluster.preempt(["n1"])
    wait_for_lines(cluster, job_id, log, "TERM", 1)
    assert cluster.wait_ended(winner) == "COMPLETED"
    cluster.wait_restarted(job_id)
    cluster.wait_history(job_id, "PREEMPTED", "RUNNING")
    assert "DUE TO PREEMPTION" in output_of(shared, job_id)


def test_preemption_with_grace_warns_the_tasks_and_lets_the_job_run(cluster: SlurmCluster, shared: Path) -> None:
    # So long that what is looked at below is still in it on a busy machine.
    cluster.configure(grace={"GraceTime": 20})
    job_id, log = run_forever(cluster, shared, "--partition=grace")
    cluster.preempt(["n1"])
    wait_for_lines(cluster, job_id, log, "TERM", 1)
    shown = cluster.show(job_id)
    assert shown["JobState"] == "RUNNING"
    assert shown["PreemptTime"] != "None"
    cluster.wait_restarted(job_id)
    cluster.wait_history(job_id, "PREEMPTED", "RUNNING")


def test_a_time_limit_can_be_moved_close(cluster: SlurmCluster, shared: Path) -> None:
    job_id, log = run_forever(cluster, shared)
    cluster.limit_in(job_id, 2)
    wait_for_lines(cluster, job_id, log, "TERM", 1)
    assert cluster.wait_ended(job_id) == "TIMEOUT"
    cluster.wait_history(job_id, "TIMEOUT")


def test_jobs_do_not_notice_that_the_controller_is_away(cluster: SlurmCluster, shared: Path) -> None:
    job_id, _ = run_forever(cluster, shared)
    cluster.stop_controller()
    assert cluster.run("scontrol", "ping").returncode != 0
    assert cluster.processes_of_node("n1")
    cluster.start_controller()
    assert cluster.state(job_id) == "RUNNING"
    cluster.cancel(job_id)
    assert cluster.wait_ended(job_id) == "CANCELLED"


def test_settings_change_while_the_cluster_runs(cluster: SlurmCluster, shared: Path) -> None:
    cluster.configure(RequeueExit="99", KillWait=2, grace={"GraceTime": 7, "MaxTime": 1}, PreemptMode="CANCEL")
    said = cluster.run("scontrol", "show", "config").stdout
    values = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in said.splitlines())}
    assert (values["RequeueExit"], values["KillWait"], values["PreemptMode"]) == ("99", "2 sec", "CANCEL")
    partition = cluster.run("scontrol", "-o", "show", "partition", "grace").stdout
    assert "GraceTime=7" in partition
    assert "MaxTime=00:01:00" in partition
    job_id = cluster.submit("exit 75", directory=shared)
    assert cluster.wait_ended(job_id) == "FAILED"
    cluster.free()
    job_id = cluster.submit('[ "$SLURM_RESTART_COUNT" ] || exit 75', directory=shared)
    cluster.wait_restarted(job_id)
    assert "GraceTime=3" in cluster.run("scontrol", "-o", "show", "partition", "grace").stdout


def test_freeing_ends_jobs_that_ignore_everything(cluster: SlurmCluster, shared: Path) -> None:
    job_id, _ = run_forever(cluster, shared, tasks=2)
    cluster.stop_controller()
    cluster.kill_node("n2")
    cluster.free()
    assert cluster.state(job_id) == "CANCELLED"
    assert not cluster.processes_of_node("n1")
    assert not cluster.processes_of_node("n2")


def test_a_second_cluster_runs_beside_the_first_and_leaves_nothing(cluster: SlurmCluster, tmp_path: Path) -> None:
    job_id = cluster.submit("sleep 100")
    cluster.wait_for(job_id, "RUNNING")
    with SlurmCluster(nodes=1) as other:
        directory = other.directory
        run_forever(other, tmp_path)
        daemons = [psutil.Process(daemon.pid) for daemon in other._daemons.values()]
        processes = daemons + other.processes_of_node("n1")
        assert len(processes) >= 7  # four daemons, two of srun, and the task
        assert other.run("squeue", "-h").stdout.count("\n") == 1
    assert not directory.exists()
    assert not [process for process in processes if is_alive(process)]
    assert cluster.state(job_id) == "RUNNING"


def test_a_person_can_start_one_and_end_it(cluster: SlurmCluster) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cluster", "2"], cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        conf = Path(line.partition("SLURM_CONF=")[2].partition(";")[0])
        shown = cluster.run("env", f"SLURM_CONF={conf}", "sinfo", "-h", "-p", "main", "-o", "%D %T").stdout
        assert shown == "2 idle\n"
        process.terminate()
        assert process.wait(200) == 0
        assert not conf.parent.exists()
    finally:
        process.kill()
        process.communicate()
