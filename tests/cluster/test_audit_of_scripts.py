"""What the audit says of scripts is what this Slurm does with them; and it reads this Slurm's own settings."""

import sys
from pathlib import Path

import msgspec
import pytest

from lastgood.audit.engine import audit
from lastgood.audit.rule import Context
from lastgood.audit.rules import all_rules
from lastgood.audit.source import Source
from lastgood.cli.answers import AuditAnswer

from .slurm import SlurmCluster

READING = [rule for rule in all_rules() if rule.family == "reading"]


def found(text: bytes) -> set[str]:
    return {finding.rule.code for finding in audit(Source("job.sh", text), READING, Context()).findings}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("LG002", b"#!/bin/bash\n#SBATCH --open-mdoe=append\ntrue\n"),
        ("LG002", b"#!/bin/bash\n#SBATCH --kill-on-bad-exit\ntrue\n"),
        ("LG002", b"#!/bin/bash\n#SBATCH --job-name=first try\ntrue\n"),
        ("LG002", b"#!/bin/bash\n#SBATCH --workdir=/tmp\ntrue\n"),
        ("LG005", b"#SBATCH --requeue\ntrue\n"),
        ("LG005", b"\xef\xbb\xbf#!/bin/bash\n#SBATCH --requeue\ntrue\n"),
        ("LG005", b"#!/bin/bash\r\n#SBATCH --requeue\r\ntrue\r\n"),
    ],
)
def test_sbatch_refuses_what_is_said_to_be_refused(cluster: SlurmCluster, shared: Path, code: str, text: bytes) -> None:
    (shared / "job.sh").write_bytes(text)
    done = cluster.run("sbatch", "--hold", shared / "job.sh")
    assert code in found(text)
    assert done.returncode != 0 and "Submitted" not in done.stdout, done.stdout


def test_what_sbatch_takes_is_not_said_to_be_refused(cluster: SlurmCluster, shared: Path) -> None:
    text = b"#!/bin/bash\n#SBATCH -J 'two words' --open-m=append # a remark\n#SBATCH -HQn1\n##SBATCH --frob\n\ntrue\n"
    (shared / "job.sh").write_bytes(text)
    done = cluster.run("sbatch", "--chdir", shared, shared / "job.sh")
    assert (found(text), done.returncode) == (set(), 0), done.stderr


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("LG001", "true\n#SBATCH --comment=seen\n"),
        ("LG003", "#SBTACH --comment=seen\n"),
        ("LG003", "#Sbatch --comment=seen\n"),
    ],
)
def test_a_line_that_sbatch_is_said_not_to_see_has_no_effect(
    cluster: SlurmCluster, shared: Path, code: str, lines: str
) -> None:
    text = f"#!/bin/bash\n#SBATCH --hold --chdir={shared}\n{lines}true\n"
    job = cluster.show(cluster.submit(text))
    assert code in found(text.encode()) and "Comment" not in job
    right = f"#!/bin/bash\n#SBATCH --hold --chdir={shared}\n#SBATCH --comment=seen\ntrue\n"
    assert found(right.encode()) == set() and cluster.show(cluster.submit(right))["Comment"] == "seen"


def test_a_variable_in_a_log_is_a_name(cluster: SlurmCluster, shared: Path) -> None:
    text = f"#!/bin/bash\n#SBATCH --chdir={shared} --output=log-$SLURM_JOB_ID.txt\necho here\n"
    assert "LG006" in found(text.encode())
    cluster.wait_ended(cluster.submit(text, directory=shared))
    assert [path.name for path in shared.glob("log-*")] == ["log-$SLURM_JOB_ID.txt"]


def test_a_directory_that_is_called_like_a_variable_is_not_there_and_the_job_ends_without_a_log(
    cluster: SlurmCluster, shared: Path
) -> None:
    text = "#!/bin/bash\n#SBATCH --output=$HOME/logs/%j.txt\ntouch ran\n"
    assert "LG006" in found(text.encode())
    assert cluster.wait_ended(cluster.submit(text, directory=shared)) == "FAILED"
    assert [path.suffix for path in shared.iterdir()] == [".sh"]


def test_the_live_policy_is_audited(cluster: SlurmCluster) -> None:
    def codes() -> set[str]:
        done = cluster.run(sys.executable, "-m", "lastgood", "audit", "--json", "--policy", "live")
        answer = msgspec.json.decode(done.stdout.encode(), type=AuditAnswer)
        assert not answer.problems
        return {finding.code for finding in answer.findings}

    before = codes()
    assert not {"LG901", "LG902"} & before
    cluster.configure(JobRequeue=0, RequeueExit="")
    assert {"LG901"} <= codes() - before
