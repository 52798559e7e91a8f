"""`lastgood submit` and `lastgood script`, against a faked Slurm: what is submitted, what is said, what is refused."""

import os
import shutil
import subprocess
import sys

import msgspec
import pytest

from lastgood.core import layout
from lastgood.core.sealed import seal
from lastgood.store.attempts import claim_attempt
from lastgood.store.jobdir import create_job, open_job
from lastgood.store.lock import lock_job
from lastgood.store.record import Records, state_directory
from lastgood.store.slurm_index import find_slurm_jobs
from schedulers.fake_slurm import FakeSlurm

PARTITIONS = """\
PartitionName=day Default=YES DefaultTime=NONE MaxTime=1-00:00:00 GraceTime=0
PartitionName=tiny Default=NO DefaultTime=NONE MaxTime=00:00:20 GraceTime=0
PartitionName=open Default=NO DefaultTime=01:00:00 MaxTime=UNLIMITED GraceTime=0
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{fake.bin}:{os.environ['PATH']}")
    for name in list(os.environ):
        if name.startswith(("SBATCH_", "SLURM_")):
            monkeypatch.delenv(name)
    fake.answer("scontrol", f"case \"$*\" in *config*) echo 'ClusterName = alpha';; *) cat <<'E'\n{PARTITIONS}E\nesac")
    fake.answer("sbatch", "echo $((16 + number))")
    monkeypatch.chdir(tmp_path)
    return fake


def shown(lastgood, number):
    return lastgood("status", number, "--json").answer("status").job


def submissions(fake):
    return [words for words in fake.calls("sbatch") if words != ["--version"]]


def test_a_job_is_submitted_and_its_script_is_kept(lastgood, fake, tmp_path):
    said = lastgood(
        "submit", "--job", "runs/x", "-p", "day", "--nodes=2", "--grace", "45s", "--", "srun", "python", "a b.py"
    )
    job = tmp_path / "runs" / "x"
    assert said.code == 0, said.err
    assert said.out == (
        f"submitted {job} as job 18\nscript  {job}/batch.sh\noutput  {job}/slurm-18.out\nlook    lastgood status 18\n"
    )
    # Options stand in both places: in the script variables such as SBATCH_PARTITION would win over them.
    assert submissions(fake) == [["--parsable", "-p", "day", "--nodes=2", f"{job}/batch.sh"]]
    script = (job / "batch.sh").read_text()
    assert "#SBATCH -p day\n#SBATCH --nodes=2\n" in script
    assert script.endswith(
        f"exec {sys.executable} -m lastgood run --job {job} \\\n    --grace 45s \\\n    -- srun python 'a b.py'\n"
    )
    assert "#SBATCH --signal=B:USR1@45\n" in script
    assert open_job(job).path == job


def test_a_number_finds_the_job_that_was_submitted(lastgood, fake, tmp_path):
    lastgood("submit", "--job", "runs/x", "--segments", "2", "--", "true")
    for number in ("18", "19"):
        assert shown(lastgood, number) == f"{tmp_path}/runs/x"
        assert lastgood("status", number).code == 75


def test_script_prints_what_submit_submits(lastgood, fake, tmp_path):
    words = [
        "--job",
        "runs/x",
        "--time=24:00:00",
        "--resume-arg",
        "--from {checkpoint}",
        "--checkpoints",
        "*.pt",
        "--",
        "x",
        "$A",
    ]
    printed = lastgood("script", *words)
    assert printed.code == 0
    assert not (tmp_path / "runs").exists()
    assert fake.calls("sbatch") == fake.calls("scontrol") == []
    assert lastgood("submit", *words).code == 0
    assert (tmp_path / "runs" / "x" / "batch.sh").read_text() == printed.out
    # As one word: argparse would take the value for an option.
    assert "--resume-arg='--from {checkpoint}'" in printed.out or "'--resume-arg=--from {checkpoint}'" in printed.out


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_printed_script_passes_shellcheck(lastgood, tmp_path):
    said = lastgood(
        "script", "--job", "a b", "--time", "2:00:00", "--segments", "3", "--", "sh", "-c", "echo $HOME; it's"
    )
    (tmp_path / "x.sh").write_text(said.out)
    subprocess.run(["shellcheck", tmp_path / "x.sh"], timeout=180, check=True)


def test_work_is_counted_in_segments_that_run_after_each_other(lastgood, fake, tmp_path):
    said = lastgood("submit", "--job", "runs/x", "--work", "36h", "--", "true")
    assert "36 h of work in a 24 h limit: 2 segments" in said.err
    assert "as 2 segments, jobs 18 19\n" in said.out
    script = f"{tmp_path}/runs/x/batch.sh"
    assert submissions(fake) == [["--parsable", script], ["--parsable", "--dependency=afterany:18", script]]
    with open(script) as lines:
        assert sum(line.startswith("export LASTGOOD_CHAIN=") for line in lines) == 1
    assert [job.path for job in find_slurm_jobs(state_directory(dict(os.environ)), "19")] == [f"{tmp_path}/runs/x"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--work", "36h", "-p", "open"], "36 h of work in a 1 h limit: 37 segments"),
        (["--work", "3h", "--time", "12:00:00"], "3 h of work in a 12 h limit: 1 segment"),
        (["--work", "48h", "--grace", "10min"], "2 d of work in a 24 h limit: 3 segments"),
    ],
)
def test_the_time_limit_is_the_jobs_or_the_partitions(lastgood, fake, words, line):
    said = lastgood("submit", "--job", "runs/x", *words, "--", "true")
    assert line in said.err
    assert said.code == 0


def test_one_segment_is_no_chain(lastgood, fake, tmp_path):
    lastgood("submit", "--job", "runs/x", "--segments", "1", "--", "true")
    assert "CHAIN" not in (tmp_path / "runs" / "x" / "batch.sh").read_text()
    assert len(submissions(fake)) == 1


def test_where_a_segment_is_refused_those_before_it_are_cancelled(lastgood, fake):
    fake.answer("sbatch", "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1", call=4)
    said = lastgood("submit", "--job", "runs/x", "--segments", "4", "--", "true")
    assert said.code == 69
    assert "QOSMaxSubmitJobPerUserLimit" in said.err
    assert "segment 3 of 4 could not be submitted" in said.err
    assert "cancelled the segments before it: 18 19" in said.err
    assert [words[-1] for words in fake.calls("scancel")] == ["19", "18"]


def test_where_they_cannot_be_cancelled_it_says_how(lastgood, fake):
    fake.answer("sbatch", "echo 'sbatch: error: no' >&2; exit 1", call=4)
    fake.answer("scancel", "echo 'scancel: error: Access/permission denied' >&2; exit 1")
    said = lastgood("submit", "--job", "runs/x", "--segments", "4", "--", "true")
    assert "could not cancel: `scancel 18 19`" in said.err


def test_without_sbatch(lastgood, fake, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    said = lastgood("submit", "--job", "runs/x", "--", "true")
    assert said.code == 69
    assert "cannot run sbatch: No such file or directory" in said.err
    assert "login node" in said.err


def test_sbatchs_own_words_are_shown(lastgood, fake):
    fake.answer("sbatch", "echo 'sbatch: error: invalid partition specified: nix' >&2; exit 1")
    said = lastgood("submit", "--job", "runs/x", "-p", "nix", "--", "true")
    assert (said.code, said.out) == (69, "")
    assert "invalid partition specified: nix" in said.err
    assert "safe now: nothing was submitted" in said.err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--segments", "2", "--array=1-3%1", "--chained"], "segments and an array contradict"),
        (["--work", "9h", "-a", "1-3"], "segments and an array contradict"),
        (["--segments", "2", "--work", "9h"], "not allowed with argument"),
        (["--segments", "0"], "whole number of 1 or more"),
        (["--no-restart", "--segments", "2"], "--no-restart means one attempt"),
        (["--no-restart", "--requeue"], "--no-restart means one attempt"),
        (["--requeue", "--no-requeue"], "contradict each other"),
        (["--array=1-3"], "cannot all run the job"),
        (["--array=1-3", "--chained"], "one after the other"),
        (["--chained"], "one after the other"),
        (["--wrap", "x"], "after `--`"),
        (["--wait"], "answers at once"),
        (["--test-only"], "lastgood script"),
        (["-p", "tiny"], "leaves no time for work"),
        (["--time=0:20"], "leaves no time for work"),
        (["-p", "unknown", "--work", "9h"], "needs a time limit"),
        (["--work", "9"], "is not a duration"),
        (["--grace", "soon"], "is not a duration"),
        (["--comment", "a\nb"], "line break"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_submitted(lastgood, fake, words, why):
    said = lastgood("submit", "--job", "runs/x", *words, "--", "true")
    assert said.code == 2
    assert why in said.err
    assert submissions(fake) == []


@pytest.mark.parametrize("job", ["runs/%j", "runs/x-%a"])
def test_names_of_jobs_that_do_not_fit(lastgood, fake, job):
    assert lastgood("submit", "--job", job, "--", "true").code == 2


def test_without_a_command(lastgood, fake):
    for words in (["--job", "runs/x", "train.py"], ["--job", "runs/x", "--"], ["--", "true"]):
        said = lastgood("submit", *words)
        assert said.code == 2
        assert submissions(fake) == []


def test_an_array_of_independent_jobs(lastgood, fake, tmp_path):
    said = lastgood("submit", "--job", "runs/x-%a", "--array=0-3", "--", "true")
    assert said.code == 0, said.err
    assert submissions(fake) == [["--parsable", "--array=0-3", f"{tmp_path}/runs/x-%a.batch.sh"]]
    script = (tmp_path / "runs" / "x-%a.batch.sh").read_text()
    assert f"#SBATCH --output={tmp_path}/runs/slurm-%A_%a.out\n" in script
    assert "#SBATCH --job-name=x\n" in script
    assert f"--job {tmp_path}/runs/x-%a" in script
    assert os.listdir(tmp_path / "runs") == ["x-%a.batch.sh"]
    assert "lastgood status 18_TASK" in said.out


def test_an_array_whose_tasks_are_segments(lastgood, fake, tmp_path):
    said = lastgood("submit", "--job", "runs/x", "--array=0-3%1", "--chained", "--", "true")
    assert said.code == 0, said.err
    script = (tmp_path / "runs" / "x" / "batch.sh").read_text()
    assert "--chained \\\n" in script
    assert f"#SBATCH --output={tmp_path}/runs/x/slurm-%A_%a.out\n" in script


def test_an_own_output_and_no_restart(lastgood, fake, tmp_path):
    said = lastgood("submit", "--job", "runs/x", "--no-restart", "-o", "logs/%j.txt", "--", "true")
    script = (tmp_path / "runs" / "x" / "batch.sh").read_text()
    assert "slurm-%j.out" not in script
    assert "#SBATCH -o logs/%j.txt\n" in script
    assert "#SBATCH --no-requeue\n" in script
    assert "logs/18.txt" in said.out


def test_a_time_limit_above_the_partitions_is_said(lastgood, fake):
    said = lastgood("submit", "--job", "runs/x", "-p", "tiny", "--time=1:00:00", "--", "true")
    assert said.code == 0
    assert "more than the partition allows (tiny 00:00:20)" in said.err


def test_a_job_that_is_finished_is_not_submitted(lastgood, fake, tmp_path):
    create_job(tmp_path / "x").mark_finished(7, 1)
    said = lastgood("submit", "--job", "x", "--", "true")
    assert said.code == 2
    assert "all its steps are done, the last is 7" in said.err
    assert submissions(fake) == []


def test_a_job_that_has_vanished_is_not_submitted(lastgood, fake, tmp_path):
    Records(state_directory(dict(os.environ))).note_saved(tmp_path / "x", "0123456789abcdef", 7)
    said = lastgood("submit", "--job", "x", "--", "true")
    assert said.code == 80
    assert not (tmp_path / "x").exists()


def test_a_save_that_takes_longer_than_the_grace_time_is_said(lastgood, fake, tmp_path, job, save_step):
    manifest = save_step(3)
    path = job.checkpoints / manifest.name / layout.MANIFEST_FILE
    path.write_bytes(seal(msgspec.structs.replace(manifest, write_s=40.0)))
    said = lastgood("submit", "--job", job.path, "--", "true")
    assert said.code == 0
    assert "took 40 s to write, longer than the 30 s" in said.err
    said = lastgood("submit", "--job", job.path, "--time=0:35", "--", "true")
    assert said.code == 2
    assert "took 40 s to write, and the time limit is 35 s" in said.err


def test_a_job_that_runs_already_is_said(lastgood, fake, job):
    with lock_job(job):
        assert "the job runs already (process" in lastgood("submit", "--job", job.path, "--", "true").err
        said = lastgood("submit", "--job", job.path, "-d", "afterany:7", "--", "true")
        assert (said.code, "runs already" in said.err) == (0, False)


def test_an_array_of_jobs_needs_the_task(lastgood, fake, tmp_path):
    from lastgood.store.slurm_index import note_slurm_job

    for task in (2, 10):
        create_job(tmp_path / f"x-{task}")
        note_slurm_job(state_directory(dict(os.environ)), "alpha", [f"18_{task}"], tmp_path / f"x-{task}")
    said = lastgood("status", "18")
    assert said.code == 2
    assert "name one of 18_2, 18_10" in said.err
    assert shown(lastgood, "18_10") == f"{tmp_path}/x-10"


def test_two_clusters_with_the_same_number(lastgood, fake, tmp_path):
    from lastgood.store.slurm_index import note_slurm_job

    for cluster in ("alpha", "beta"):
        create_job(tmp_path / cluster)
        note_slurm_job(state_directory(dict(os.environ)), cluster, ["18"], tmp_path / cluster)
    assert shown(lastgood, "18") == f"{tmp_path}/alpha"


def test_a_number_that_is_not_remembered_is_looked_up(lastgood, fake, tmp_path, monkeypatch):
    job = create_job(tmp_path / "x")
    fake.answer("scontrol", f"echo 'JobId=7 JobName=x UserId=a(1) Command={job.path}/{layout.BATCH_FILE} WorkDir=/'")
    assert shown(lastgood, "7") == str(job.path)
    fake.answer("scontrol", "echo 'JobId=7 JobName=x UserId=a(1) Command=(null) WorkDir=/'")
    said = lastgood("status", "7")
    assert (said.code, "has not run `lastgood run`" in said.err) == (66, True)
    fake.answer("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    said = lastgood("status", "7")
    assert (said.code, "neither we nor Slurm know a job 7" in said.err) == (66, True)
    fake.remove("scontrol")
    monkeypatch.setenv("PATH", str(fake.bin))
    said = lastgood("status", "7")
    assert (said.code, "give the job's directory" in said.err) == (69, True)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("echo 'JobId=18 JobName=x UserId=a(1) JobState=PENDING Reason=Dependency Restarts=2'",
         "job 18 is PENDING (Dependency), requeued 2 time(s)"),
        ("echo 'JobId=18 JobName=x UserId=a(1) JobState=RUNNING Reason=None Restarts=0'", "job 18 is RUNNING"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "job 18 has ended a while ago"),
        ("echo 'scontrol: error: no' >&2; exit 1", "cannot look up job 18: scontrol said: scontrol: error: no"),
    ],
)  # fmt: skip
def test_status_of_a_number_says_what_slurm_says(lastgood, fake, answer, said, tmp_path):
    assert lastgood("submit", "--job", "runs/x", "--", "true").code == 0
    fake.answer("scontrol", answer)
    told = lastgood("status", "18", "--json").answer("status")
    assert told.slurm.startswith(said)
    assert told.slurm in " ".join(lastgood("status", "18").out.split())
    assert lastgood("status", tmp_path / "runs" / "x", "--json").answer("status").slurm == ""


def test_a_directory_whose_name_is_a_number_is_a_directory(lastgood, fake, tmp_path):
    claim_attempt(create_job(tmp_path / "7"), "launch")
    assert shown(lastgood, "7") == f"{tmp_path}/7"
