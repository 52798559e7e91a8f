"""A plan, made from this cluster's own rules, submitted to it: what was planned is what Slurm and the job are told."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from lastgood.cli.answers import PlanAnswer

from .slurm import SlurmCluster
from .work import Work


def test_a_plan_reaches_slurm_and_the_job(cluster: SlurmCluster, shared: Path) -> None:
    def lastgood(*words: object) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-m", "lastgood", *map(str, words)],
            cwd=shared,
            env={**cluster.environment, "LASTGOOD_STATE_DIR": str(shared / "state"), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    words = ["--write", "100ms", "--stall", "1ms", "--mtti", "20s", "--restart", "1s", "--detection", "0s"]
    plan = shared / "plan.json"
    plan.write_text(lastgood("plan", *words, "--time", "10min", "--policy", "live", "--json").stdout)
    by_name = {one.name: one for one in msgspec.json.decode(plan.read_bytes(), type=PlanAnswer).mechanisms}
    assert by_name["requeue"].verdict == "use"
    assert "KillWait leaves" in by_name["GraceTime"].reason

    options: dict[str, Any] = {"every": "auto"}
    job = Work(cluster, shared, steps=100, pause_s=0.1, **options)
    said = lastgood("submit", "--job", job.job, "--plan", plan, "--", *job.python())
    number = int(said.stdout.splitlines()[0].split()[-1])
    job.output = job.job / f"slurm-{number}.out"
    assert "as planned in" in said.stderr
    shown = cluster.show(number)
    assert (shown["TimeLimit"], shown["Requeue"]) == ("00:10:00", "1")
    assert "#SBATCH --signal=B:USR1@90\n" in (job.job / "batch.sh").read_text()
    assert cluster.wait_ended(number) == "COMPLETED"
    assert "interrupted once in 20 s (LASTGOOD_MTTI)" in job.text()
    job.check_answer()
