"""Batch scripts by hand: whether the exit code of `lastgood run` reaches Slurm, and Slurm's signals reach `lastgood run`."""

from pathlib import Path

from .slurm import SlurmCluster
from .work import Work, fault

ENDS = {
    "exec": "exec {run}",
    "plain": "{run}",
    "set -e": "set -e\n{run}\necho all steps are done",
    "trap": "trap : TERM USR1\n{run}\ncode=$?\necho the launcher ended with $code\nexit $code",
}
LOST = "{run}\necho the launcher has ended"


def script(work: Work, end: str, *options: str) -> str:
    *lines, last = work.script(*options).splitlines()
    return "\n".join([*lines, end.format(run=last.removeprefix("exec "))]) + "\n"


def test_the_exit_code_reaches_slurm(cluster: SlurmCluster, shared: Path) -> None:
    """The program asks to be run again, and the launcher leaves that to Slurm. A line after it hides what it says."""
    jobs = {}
    for name, end in [*ENDS.items(), ("lost", LOST)]:
        work = Work(cluster, shared / name, steps=60, faults=[fault(30, "again")])
        jobs[name] = work, work.submit(script=script(work, end, "--max-restarts", "0"))
    lost, job_id = jobs.pop("lost")
    cluster.wait_ended(job_id)
    cluster.wait_history(job_id, "COMPLETED")
    assert not lost.is_finished
    for name, (work, job_id) in jobs.items():
        cluster.wait_restarted(job_id)
        assert cluster.wait_ended(job_id) == "COMPLETED", (name, work.text())
        rows = cluster.wait_history(job_id, "REQUEUED", "COMPLETED")
        assert rows[0]["ExitCode"] == "75:0", name
        work.check_answer()


def test_the_signal_reaches_the_launcher_where_the_shell_does_not_die_of_it(
    cluster: SlurmCluster, shared: Path
) -> None:
    """A shell without a trap dies, and Slurm kills the rest at once. What is lost then is what was done since the last
    save."""
    jobs = {}
    for name in ("exec", "trap", "plain"):
        work = Work(cluster, shared / name, steps=300)
        jobs[name] = work, work.submit("--nodelist=n1", script=script(work, ENDS[name]))
    for work, _ in jobs.values():
        work.wait_step(35)
    cluster.preempt(["n1"])
    for name, (work, job_id) in jobs.items():
        cluster.wait_restarted(job_id)
        assert cluster.wait_ended(job_id) == "COMPLETED", (name, work.text())
        work.check_answer()
        if name == "plain":
            assert work.outcomes() == ["", "finished"], work.text()
        else:
            assert work.outcomes() == ["preempted", "finished"], work.text()
            assert work.done_twice() == 0, name
