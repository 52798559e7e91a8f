"""`lastgood plan`, as a person meets it, and `lastgood submit --plan`: what is said, what is refused, what it becomes."""

import os
import sys

import msgspec
import pytest

from lastgood.core.reliability import FailureRate
from lastgood.store.attempts import Journal, claim_attempt
from lastgood.store.jobdir import create_job
from schedulers.fake_slurm import FakeSlurm

STATED = ["--write", "2min", "--stall", "3s"]
COMMON = [*STATED, "--nodes", "128", "--gpus", "1024", "--preset", "rsc1", "--time", "24:00:00", "--work", "30d"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("SBATCH_", "SLURM_", "LASTGOOD_MTTI")):
            monkeypatch.delenv(name)


def planned(lastgood, *words):
    said = lastgood("plan", *words, "--json")
    assert said.code == 0, said.err
    return said.answer("plan")


def test_a_common_plan_is_one_screen_of_80_columns(lastgood):
    said = lastgood("plan", *COMMON, "--queue", "20min", "--step", "4s", "--others", "1/day")
    assert said.code == 0
    lines = said.out.splitlines()
    assert len(lines) <= 46
    assert max(map(len, lines)) <= 80
    assert lines[0] == "Save every 20 min, asynchronous shared. That loses 4.9 % of the time."
    for word in ("because", "failures", "recovery", "(assumed)", "ETTR", "use", "ask for", "do not", "lost if really"):
        assert word in said.out


def test_every_odd_plan_fits_80_columns(lastgood):
    for words in (
        ["--write", "30min", "--mtti", "2h", "--shape", "0.7", "--every", "1h", "--most-lost", "30min"],
        ["--write", "0s", "--gpus", "16384", "--preset", "rsc1", "--every", "30min"],
        ["--write", "10d", "--mtti", "1d", "--bytes", "900TB", "--nodes", "99999", "--gpus", "9999999"],
        [
            *COMMON,
            "--local-write",
            "1s",
            "--replica-write",
            "2s",
            "--no-requeue",
            "--max-bandwidth",
            "1MB/s",
            "--bytes",
            "1TB",
        ],
    ):
        said = lastgood("plan", *words)
        assert said.code in (0, 2), said.err
        assert all(len(line) <= 80 for line in said.out.splitlines()), said.out


def test_the_published_loss_is_reproduced(lastgood):
    said = lastgood(
        "plan", "--gpus", "16384", "--preset", "rsc1", "--write", "0s", "--every", "30min", "--detection", "0s"
    )
    assert "to do again  15 min, 4,096 GPU-h" in said.out
    assert "2,048 nodes of 8" in said.err


def test_ettr_is_printed_with_its_formula(lastgood):
    words = ["--nodes", "2048", "--preset", "rsc1", "--write", "0s", "--every", "60min", "--detection", "0s"]
    said = lastgood("plan", *words, "--restart", "5min")
    assert "ETTR         0.676" in said.out
    assert "(1 - (u0 + T/2)/M) / (1 + w/T)" in said.out
    assert "= (1 - (300 + 1800)/6490.4) / (1 + 0/3600)" in said.out


def test_what_nobody_has_said_is_marked(lastgood):
    said = lastgood("plan", *STATED)
    assert "seen after 60 s (assumed), queue 0 s (assumed), restart 5 min" in said.out
    assert planned(lastgood, *STATED, "--queue", "1h").recovery.assumed == ["detection", "restart"]
    assert "(assumed)" not in lastgood("plan", *STATED, "--detection", "0s", "--queue", "0s", "--restart", "1s").out


def test_no_stall_is_taken_as_the_write_and_that_is_said(lastgood):
    said = lastgood("plan", "--write", "2min")
    assert "no --stall" in said.err
    assert "synchronous shared" in said.out.splitlines()[0]
    assert "no --stall" not in lastgood("plan", *STATED).err


@pytest.fixture
def saved(tmp_path):
    job = create_job(tmp_path / "job")
    claim_attempt(job, "x")
    journal = Journal(job, 1)
    for write_s in (20.0, 30.0, 90.0):
        journal.write("committed", step=1, name="a", bytes=5_000_000_000, write_s=write_s)
    journal.write("allocation", nodes=["n1", "n2"], gpus=16)
    journal.write("paced", interval_s=60.0, margin_s=None, stall_s=1.5)
    journal.close()
    return job


def test_a_job_that_has_saved_tells_its_own_costs(lastgood, saved):
    plan = planned(lastgood, "--job", saved.path)
    assert (plan.save.write_s, plan.save.stall_s, plan.save.bytes) == (30.0, 1.5, 5_000_000_000)
    assert "median of 3 saves, 20 to 90 s" in plan.save.source
    assert (plan.nodes, plan.gpus) == (2, 16)
    assert planned(lastgood, "--job", saved.path, "--stall", "2s").save.stall_s == 2.0
    stated = planned(lastgood, "--job", saved.path, "--write", "1min").save
    assert (stated.write_s, stated.stall_s) == (60.0, 1.5)


def test_a_job_without_saves_says_what_to_give(lastgood, tmp_path):
    said = lastgood("plan", "--job", create_job(tmp_path / "job").path)
    assert said.code == 2
    assert "no journal there tells" in said.err
    assert lastgood("plan", "--job", tmp_path / "absent").code == 66


@pytest.mark.slow
def test_a_real_save_is_measured_and_removed(lastgood, tmp_path):
    said = lastgood("plan", "--measure", tmp_path, "--bytes", "14x1e5")
    assert said.code == 0, said.err
    assert "measured: 3 saves of 1.4 MB" in said.out.replace("\n          ", " ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_one_writer_for_many_nodes_is_said(lastgood, tmp_path):
    words = ["--measure", tmp_path, "--bytes", "14x1e5", "--nodes", "4"]
    assert "--writers 4" in lastgood("plan", *words).err
    said = lastgood("plan", *words, "--writers", "4")
    assert "--writers" not in said.err
    assert "in 4 writers at once" in said.out.replace("\n          ", " ")


def test_the_state_is_counted_by_recipe(lastgood):
    words = ["--write-speed", "2GB/s", "--stall", "1s", "--parameters", "7e9"]
    assert planned(lastgood, *words).save.write_s == pytest.approx(49)
    assert planned(lastgood, *words, "--recipe", "sgd").save.bytes == 28_000_000_000


def history(tmp_path, **changes):
    rate = FailureRate.counted([(1, 13)], 2000, "test")
    path = tmp_path / "history.json"
    path.write_bytes(msgspec.json.encode({"rate": rate, "attempts": {"wait_median_s": 600.0}, **changes}))
    return path


def test_a_counted_rate_is_planned_with(lastgood, tmp_path):
    plan = planned(lastgood, *STATED, "--history", history(tmp_path), "--nodes", "100")
    assert plan.failures.per_1000_node_days == pytest.approx(6.5)
    assert "95 %: 3.46 to 11.1" in plan.failures.source
    said = lastgood("plan", *STATED, "--history", history(tmp_path))
    assert "queue 10 min" in said.out
    assert "median wait of restarts" in said.out


POLICY = """\
ClusterName=alpha
JobRequeue=1
RequeueExit=75
KillWait=30
PreemptMode=REQUEUE
PreemptType=preempt/partition_prio
PreemptExemptTime=02:00:00
PartitionName=day Default=YES GraceTime=600 Nodes=n1
PartitionName=scavenge GraceTime=0 PreemptMode=CANCEL Nodes=n1
"""


def test_the_policy_decides_the_mechanisms(lastgood, tmp_path):
    (tmp_path / "slurm.conf").write_text(POLICY)
    words = [*COMMON, "--policy", tmp_path / "slurm.conf"]
    by_name = {one.name: one for one in planned(lastgood, *words).mechanisms}
    assert "lists 75" in by_name["RequeueExit"].reason
    assert by_name["GraceTime"].verdict == "use"
    assert "2 h are safe" in by_name["exempt window"].reason
    scavenge = planned(lastgood, *words, "--partition", "scavenge")
    assert {one.name: one.verdict for one in scavenge.mechanisms}["requeue"] == "do not"
    assert scavenge.submit.segments > 20
    said = lastgood("plan", *words, "--partition", "night")
    assert (said.code, "day, scavenge" in said.err) == (2, True)


def test_the_live_policy_is_asked_for(lastgood, tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{fake.bin}:{os.environ['PATH']}")
    fake.answer("scontrol", "case \"$*\" in *config*) echo 'KillWait = 30 sec'; echo 'RequeueExit = 75';; esac")
    said = lastgood("plan", *COMMON, "--policy", "live")
    assert said.code == 0, said.err
    assert "RequeueExit: lists 75" in said.out
    assert "KillWait leaves 30 s" in said.out


def test_a_job_that_cannot_get_on_is_told_so(lastgood):
    said = lastgood("plan", "--nodes", "100000", "--preset", "rsc1", "--write", "1h")
    assert said.out.startswith("This job hardly gets on: 100.0 % of its time is lost")
    assert "longer than the job lives" in said.out


def test_that_it_never_starts_on_the_same_nodes_may_be_said(lastgood):
    assert lastgood("plan", *COMMON, "--same-nodes", "0%") == lastgood("plan", *COMMON)


def test_files_that_the_policy_includes_are_read(lastgood, tmp_path):
    (tmp_path / "slurm.conf").write_text("Include site.conf\n")
    (tmp_path / "site.conf").write_text(POLICY)
    said = lastgood("plan", *COMMON, "--policy", tmp_path / "slurm.conf")
    assert said.code == 0, said.err
    assert "RequeueExit: lists 75" in said.out


def test_a_policy_that_is_none_is_refused(lastgood, tmp_path):
    (tmp_path / "x").write_text("#!/bin/sh\necho hi\n")
    assert lastgood("plan", *STATED, "--policy", tmp_path / "x").code == 65
    assert lastgood("plan", *STATED, "--policy", tmp_path / "absent").code == 66


@pytest.mark.parametrize("suffix", [".png", ".svg"])
@pytest.mark.slow
def test_a_plot_is_drawn(lastgood, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"plan{suffix}"
    assert lastgood("plan", *COMMON, "--plot", path).code == 0
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    if suffix == ".svg":
        assert b"simulated" in data


def test_a_plot_that_cannot_be_is_refused(lastgood, tmp_path, monkeypatch):
    assert lastgood("plan", *COMMON, "--plot", tmp_path / "plan.gif").code == 2
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    said = lastgood("plan", *COMMON, "--plot", tmp_path / "plan.png")
    assert (said.code, "pip install 'lastgood[plot]'" in said.err) == (2, True)


BAD = [
    ([], "how long does a save take?"),
    (["--write", "120"], "--write: '120' is not a duration"),
    (["--write", "2min", "--write-speed", "1GB/s"], "each say how long a write takes"),
    (["--write", "2min", "--stall", "3min"], "longer than the write"),
    (["--write", "2min", "--nodes", "0"], "whole number of 1 or more"),
    (["--write", "2min", "--nodes", "-4"], "--nodes"),
    (["--write", "2min", "--nodes", "99999999"], "no cluster has more"),
    (["--write", "2min", "--nodes", "8", "--gpus", "4"], "fewer than one each"),
    (["--write", "2min", "--failures", "6.5"], "not a failure rate"),
    (["--write", "2min", "--failures", "6.5/1000nd", "--preset", "rsc1"], "not allowed with"),
    (["--write", "2min", "--mtti", "12h", "--others", "1/day"], "give one of them"),
    (["--write", "2min", "--mtti", "0s"], "does nothing"),
    (["--write", "2min", "--shape", "20"], "--shape 20"),
    (["--write", "2min", "--shape", "soft"], "--shape soft"),
    (["--write", "2min", "--most-lost", "1min"], "no interval loses less"),
    (["--write", "2min", "--most-lost", "0s"], "must be more than nothing"),
    (["--write", "2min", "--max-write-share", "0.1"], "not a share"),
    (["--write", "2min", "--max-write-share", "150%"], "not a share"),
    (["--write", "2min", "--max-write-share", "0%"], "must be more than nothing"),
    (["--write", "2min", "--bytes", "1GB", "--max-bandwidth", "1GB"], "not a speed"),
    (["--write", "2min", "--time", "3min"], "leaves no time for work"),
    (["--write", "9999999d"], "longer than ten years"),
    (["--write", "2min", "--bytes", "98 gigs"], "not a number of bytes"),
    (["--write", "2min", "--bytes", "1GB", "--parameters", "7e9"], "both say how large"),
    (["--write", "2min", "--recipe", "sgd"], "of how many?"),
    (["--write-speed", "1GB/s"], "of how many bytes?"),
    (["--measure", "."], "how many bytes?"),
    (["--write", "2min", "--measure-most", "1GB"], "--measure-most"),
    (["--write", "2min", "--writers", "4"], "--writers"),
    (["--write", "2min", "--max-bandwidth", "1GB/s"], "of how many bytes?"),
    (["--write", "2min", "--same-nodes", "0.5"], "--same-nodes 0.5: not a share"),
    (["--write", "2min", "--local-write", "1s", "--measure-local", "."], "say the same"),
    (["--write", "2min", "--partition", "day"], "where to look"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_what_cannot_be_meant_is_refused(lastgood, words, message):
    said = lastgood("plan", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_files_that_are_not_there_or_something_else_are_named(lastgood, tmp_path):
    said = lastgood("plan", *STATED, "--history", tmp_path / "absent.json")
    assert (said.code, "absent.json: there is no such file" in said.err) == (2, True)
    (tmp_path / "x.json").write_text('{"checkpoints": []}')
    said = lastgood("plan", *STATED, "--history", tmp_path / "x.json")
    assert (said.code, "no history" in said.err) == (2, True)
    said = lastgood("plan", "--measure", tmp_path / "absent", "--bytes", "1GB")
    assert (said.code, "no such directory" in said.err) == (74, True)


@pytest.fixture
def plan_file(lastgood, tmp_path):
    def write(*words):
        path = tmp_path / "plan.json"
        path.write_text(lastgood("plan", *words, "--json").out)
        return path

    return write


def script_of(lastgood, *words):
    said = lastgood("script", "--job", "runs/x", *words, "--", "srun", "python", "train.py")
    assert said.code == 0, said.err
    return said.out, said.err


def test_a_plan_becomes_options(lastgood, plan_file):
    script, said = script_of(lastgood, "--plan", plan_file(*COMMON), "--nodes=128")
    for line in (
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:USR1@305",
        "#SBATCH --time=1440",
        "export LASTGOOD_MTTI=103846s",
        "    --grace 245s \\",
    ):
        assert f"\n{line}\n" in script
    assert "as planned in" in said
    assert "not as planned" not in said
    assert "--plan" not in script


def test_a_chain_becomes_segments(lastgood, plan_file):
    plan = plan_file(*COMMON, "--no-requeue")
    count = msgspec.json.decode(plan.read_bytes())["submit"]["segments"]
    script, _ = script_of(lastgood, "--plan", plan, "--nodes=128")
    assert f"# One of {count} segments" in script
    assert "#SBATCH --no-requeue" in script


def test_what_is_given_stands_and_that_is_said(lastgood, plan_file, monkeypatch):
    monkeypatch.setenv("LASTGOOD_MTTI", "5h")
    given = ["--grace", "30s", "--time=12:00:00", "--nodes=4", "--signal=B:USR1@77", "--no-requeue", "--segments", "2"]
    script, said = script_of(lastgood, "--plan", plan_file(*COMMON), *given, "--open-mode=truncate")
    for text in (
        "--grace 30s is given, planned was 245s",
        "--time=12:00:00 is given, it was planned for 24 h 0 min",
        "--nodes=4 is given, it was planned for 128",
        "--signal=B:USR1@77 is given",
        "--no-requeue is given",
        "--segments 2 is given, planned was one job that is requeued",
        "LASTGOOD_MTTI=5h is set, planned was 103846s",
        "--open-mode=truncate is given: each run of the job empties its output",
    ):
        assert f"not as planned: {text}" in said
    assert "LASTGOOD_MTTI" not in script
    assert script.index("--signal=B:USR1@305\n") < script.index("--signal=B:USR1@77\n"), "the last one wins"
    assert "--grace" not in script, "as lastgood run has it by itself"


def test_no_restart_is_no_requeue(lastgood, plan_file):
    script, said = script_of(lastgood, "--plan", plan_file(*COMMON), "--no-restart", "--nodes=128")
    assert "#SBATCH --no-requeue" in script
    assert "not as planned: --no-restart is given" in said


def test_a_short_limit_is_not_spent_on_its_signal(lastgood, plan_file):
    script, said = script_of(lastgood, "--plan", plan_file(*COMMON), "--time=00:08:00", "--nodes=128")
    assert "#SBATCH --signal=B:USR1@245" in script
    assert "is most of that time" in said


def test_an_interval_that_auto_does_not_come_to_is_said(lastgood, plan_file):
    _, said = script_of(lastgood, "--plan", plan_file(*COMMON, "--most-lost", "10min"), "--nodes=128")
    assert 'Run(every="420s")' in said


def test_without_a_plan_nothing_changes(lastgood):
    script, said = script_of(lastgood, "--grace", "45s")
    assert ("LASTGOOD_MTTI" in script, "planned" in said, "--signal=B:USR1@45" in script) == (False, False, True)
    assert "--signal=B:USR1@30" in script_of(lastgood)[0]


def test_submit_takes_it_too(lastgood, plan_file, tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{fake.bin}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    fake.answer("scontrol", "echo 'PartitionName=day Default=YES MaxTime=7-00:00:00'")
    fake.answer("sbatch", "echo $((16 + number))")
    said = lastgood("submit", "--job", "runs/x", "--plan", plan_file(*COMMON), "--nodes=128", "--", "true")
    assert said.code == 0, said.err
    assert "as planned in" in said.err
    assert "--time=1440" in fake.calls("sbatch")[-1]
    assert "export LASTGOOD_MTTI=103846s" in (tmp_path / "runs" / "x" / "batch.sh").read_text()


@pytest.mark.parametrize(
    ("content", "code"), [("", 2), ("{}", 2), ('{"format": "lastgood plan", "version": 9}', 76), (None, 2)]
)
def test_another_file_is_no_plan(lastgood, tmp_path, content, code):
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    said = lastgood("script", "--job", "runs/x", "--plan", path, "--", "true")
    assert (said.code, said.out) == (code, "")
    assert "plan.json" in said.err
