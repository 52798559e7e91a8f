"""`lastgood history --sacct`: a file, standard input or sacct itself; text in 80 columns, JSON and CSV; clear refusals."""

import csv
import io
import os
import subprocess
import sys
from datetime import datetime, timedelta

import pytest

from lastgood.cli.accounting_report import moment
from lastgood.core.errors import UsageError
from lastgood.core.reliability import FailureRate
from plan.sacct_file import COLUMNS, DAY, run, text_of
from schedulers.fake_slurm import FakeSlurm


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """A file in the current directory: job 1 failed on its node after a day and ran again, job 2 is another user's."""
    rows = [
        run(State="NODE_FAIL"),
        run(Submit="2026-03-03T00:00:10", Start="2026-03-03T01:00:00", End="2026-03-12T01:00:00", ElapsedRaw="777600"),
        run(JobID="2", State="FAILED", ExitCode="9:0", Partition="cpu"),
    ]
    users = ["ada", "ada", "bob"]
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "jobs.txt"
    path.write_text(text_of([{**row, "User": user} for row, user in zip(rows, users, strict=True)], [*COLUMNS, "User"]))
    return path


@pytest.fixture
def fake(tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{fake.bin}:{os.environ['PATH']}")
    fake.answer("sacct", f"echo {' '.join(COLUMNS)}", call=1)
    return fake


def test_the_answer_in_words(lastgood, jobs):
    said = lastgood("history", "--sacct", "jobs.txt")
    words = " ".join(said.out.split())
    assert said.code == 0
    assert "runs 3 of 2 jobs; 1 ran again" in words
    assert "exposed 11 node-days, 1,056 GPU-hours" in words
    assert "rate 90.9 (2.3 to 507) failures per 1,000 node-days: 1" in words
    assert "a job on 16 nodes fails each 16 h 30 min, on average" in words
    assert "lost 24 node-hours, 96 GPU-hours (9.09% of what ran), if all that a failed run had done is lost" in words
    assert "after 1 of 1 failed runs the job ran again, 1 h 0 min later" in words
    assert "exit code 9, or 137: ended by SIGKILL" in words
    assert all(len(line) <= 80 for line in said.out.splitlines())


def test_long_names_and_many_groups_stay_within_80_columns(lastgood, tmp_path):
    rows = [
        run(JobID=str(n), State="NODE_FAIL" if n % 2 else "PREEMPTED", Partition=f"partition-with-a-long-name-{n:03d}",
            NodeList=f"node-with-a-very-long-name-{n:04d}.cluster.example.org", Start=f"2026-03-02T0{n % 9}:00:00",
            ElapsedRaw="30000",
            AllocTRES=f"gres/gpu:type{n}\x1b[1m=4")
        for n in range(1, 50)
    ]  # fmt: skip
    (tmp_path / "f").write_text(text_of(rows))
    said = lastgood("history", "--sacct", tmp_path / "f")
    assert said.code == 0
    lines = said.out.splitlines()[1:]
    assert all(len(line) <= 80 for line in lines), [line for line in lines if len(line) > 80]
    assert "\x1b" not in said.out
    assert "... and 37 more: --json has them" in said.out


def test_json_is_as_documented_and_holds_the_rate_that_a_plan_reads(lastgood, jobs):
    answer = lastgood("history", "--sacct", "jobs.txt", "--json").answer("history --sacct")
    assert isinstance(answer.rate, FailureRate)
    assert (answer.rate.failures, answer.rate.node_days) == (1, 11)
    assert answer.rate.source == "jobs.txt, 2026-03-02 to 2026-03-12"


def test_csv_has_one_table(lastgood, jobs):
    rows = list(csv.DictReader(io.StringIO(lastgood("history", "--sacct", "jobs.txt", "--csv").out)))
    assert {row["kind"] for row in rows} == {"all", "ending", "partition", "gpu", "node", "period"}
    for kind in ("ending", "partition", "gpu", "period"):
        assert sum(float(row["node_days"]) for row in rows if row["kind"] == kind) == pytest.approx(11)
    assert [row["failures"] for row in rows if row["kind"] == "partition"] == ["1", "0"]


@pytest.mark.slow
def test_standard_input(jobs):
    words = [sys.executable, "-m", "lastgood", "history", "--sacct", "-", "--json"]
    with jobs.open("rb") as file:
        piped = subprocess.run(words, stdin=file, capture_output=True, check=True)
    named = subprocess.run([*words[:-2], "jobs.txt", "--json"], capture_output=True, check=True)
    assert piped.stdout.replace(b"standard input", b"jobs.txt") == named.stdout


def test_with_saves_less_is_lost(lastgood, jobs):
    answer = lastgood("history", "--sacct", "jobs.txt", "--json", "--saved-every", "1h").answer("history --sacct")
    assert (answer.lost_node_hours, answer.lost_gpu_hours) == (0.5, 2)


@pytest.mark.parametrize(
    "options, runs, node_days",
    [
        (["--partition", "cpu"], 1, 1),
        (["--partition", "cpu,gpu"], 3, 11),
        (["--user", "bob"], 1, 1),
        (["--user", "nobody"], 0, 0),
        (["--since", "2026-03-02T12:00"], 3, 10),
        (["--until", "2026-03-02T12:00"], 2, 1),
        (["--since", "2026-03-04", "--until", "2026-03-05"], 1, 1),
    ],
)
def test_a_part_of_the_file(lastgood, jobs, options, runs, node_days):
    answer = lastgood("history", "--sacct", "jobs.txt", "--json", *options).answer("history --sacct")
    assert (answer.runs, answer.node_days) == (runs, pytest.approx(node_days))


def test_no_node_is_blamed_for_what_luck_explains(lastgood, tmp_path):
    rows = [run(JobID=str(n), NodeList=f"n{n}") for n in range(1, 200)]
    rows += [run(JobID="500", State="NODE_FAIL", NodeList="n7"), run(JobID="501", NodeList="n7")]
    (tmp_path / "f").write_text(text_of(rows))
    words = " ".join(lastgood("history", "--sacct", tmp_path / "f").out.split())
    assert "No node fails more often than luck explains. The worst: n7 with 1 where 0.015 would be expected" in words
    assert "SUSPECT" not in words
    rows += [
        run(JobID=str(600 + n), State="NODE_FAIL", NodeList="n7", End=f"2026-03-03T0{n}:00:00", ElapsedRaw="7200")
        for n in range(1, 7)
    ]
    (tmp_path / "f").write_text(text_of(rows))
    lines = lastgood("history", "--sacct", tmp_path / "f").out.splitlines()
    (place,) = [n for n, line in enumerate(lines) if line.startswith("SUSPECT NODE")]
    assert lines[place + 1].split()[:2] == ["n7", "7"]
    assert lines[place + 1].endswith("less than 0.01 %")


def test_nothing_ran(lastgood, jobs):
    said = lastgood("history", "--sacct", "jobs.txt", "--user", "nobody")
    assert said.code == 0
    assert "no job ran in this time" in said.out


def test_rows_that_are_not_counted_are_shown(lastgood, jobs):
    with jobs.open("a") as file:
        file.write("3|WHAT|" + "|" * 9 + "ada\n")
    out = lastgood("history", "--sacct", "jobs.txt").out
    assert "not counted: 1 row, a state that Slurm does not have" in out
    assert "line 5: State 'WHAT'" in out


def test_a_file_without_duplicates_gives_a_warning(lastgood, tmp_path):
    (tmp_path / "f").write_text(text_of([DAY, run(JobID="2")]))
    assert "without --duplicates" in " ".join(lastgood("history", "--sacct", tmp_path / "f").out.split())


@pytest.mark.parametrize(
    "words, code, says",
    [
        (["--sacct", "nowhere.txt"], 2, "there is no file nowhere.txt"),
        (["--sacct", "."], 2, ". is a directory"),
        (["runs/x", "--sacct", "jobs.txt"], 2, "not for 'runs/x'"),
        (["--sacct", "jobs.txt", "--json", "--csv"], 2, "--json or --csv"),
        (["--csv"], 2, "--csv goes with --sacct"),
        (["--since", "3d"], 2, "--since goes with --sacct"),
        (["--saved-every", "3min"], 2, "--saved-every goes with --sacct"),
        (["--sacct", "jobs.txt", "--since", "soon"], 2, "--since 'soon' is no moment"),
        (["--sacct", "jobs.txt", "--since", "2026-03-01", "--until", "2026-02-01"], 2, "is not before"),
        (["--sacct", "jobs.txt", "--saved-every", "30"], 2, "'30' is not a duration"),
        (["--sacct", "jobs.txt", "--saved-every", "0s"], 2, "longer than nothing"),
        (["--sacct", "jobs.txt", "--delimiter", ";"], 2, "line 1: the delimiter ';' is not in it"),
        (["--sacct", "jobs.txt", "--partition", "a,,b"], 2, "a name is empty"),
        (["--sacct", "--delimiter", ";"], 2, "--delimiter is of a file"),
    ],
)
def test_a_mistake_is_named(lastgood, jobs, words, code, says):
    said = lastgood("history", *words)
    assert (said.code, said.out) == (code, "")
    assert says in said.err


def test_a_column_that_an_option_needs(lastgood, tmp_path):
    (tmp_path / "f").write_text(text_of([DAY]))
    said = lastgood("history", "--sacct", tmp_path / "f", "--user", "ada")
    assert said.code == 2
    assert "has no column User, which --user needs" in said.err


def test_a_file_that_may_not_be_read(lastgood, jobs, monkeypatch):
    def refuse(*words, **options):
        raise PermissionError(13, "Permission denied", "jobs.txt")

    monkeypatch.setattr("builtins.open", refuse)
    said = lastgood("history", "--sacct", "jobs.txt")
    assert said.code == 77
    assert "cannot read jobs.txt: Permission denied" in said.err


def test_without_polars_it_says_what_to_install(lastgood, jobs, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = lastgood("history", "--sacct", "jobs.txt")
    assert said.code == 2
    assert "pip install 'lastgood[history]'" in said.err


@pytest.mark.parametrize("text, ago", [("2d", timedelta(days=2)), ("36h", timedelta(hours=36)), ("now", timedelta())])
def test_a_moment_as_how_long_ago(text, ago):
    now = datetime(2026, 1, 31, 12)
    assert moment(text, now, "--since") == now - ago


@pytest.mark.parametrize("text", ["", "x", "99999999d", "2026-13-01"])
def test_what_is_no_moment(text):
    with pytest.raises(UsageError, match="no moment"):
        moment(text, datetime(2026, 1, 31), "--since")


# Asked live


def test_sacct_is_asked_for_the_last_thirty_days(lastgood, fake):
    begin = int((datetime.now() - timedelta(days=31)).timestamp())
    row = run(State="NODE_FAIL", Start=str(begin), End=str(begin + 2 * 86400), Submit=str(begin), ElapsedRaw="172800")
    fake.answer("sacct", f"cat <<'E'\n{text_of([row])}E", call=2)
    said = lastgood("history", "--sacct", "--json")
    answer = said.answer("history --sacct")
    command = fake.calls("sacct")[1]
    assert command[:3] == ["-X", "--duplicates", "-P"]
    assert "-a" in command
    since = datetime.fromisoformat(command[command.index("-S") + 1])
    assert timedelta(days=30) <= datetime.now() - since < timedelta(days=30, minutes=5)
    # Of what began before that time only the rest is exposed.
    assert answer.node_days == pytest.approx(1, abs=0.01)
    assert answer.rate.failures == 1
    assert answer.rate.source.startswith("sacct, ")
    assert answer.source in said.err, "the command is shown before it runs"
    assert "-o JobID,State" in answer.source


def test_what_is_asked_for_is_handed_on_to_sacct(lastgood, fake):
    fake.answer("sacct", f"echo '{'|'.join(COLUMNS)}'", call=2)
    said = lastgood(
        "history", "--sacct", "--since", "2026-01-01", "--until", "2026-02-01", "--user", "ada", "--partition", "a,b"
    )
    words = " ".join(fake.calls("sacct")[1])
    assert "-S 2026-01-01T00:00:00 -E 2026-02-01T00:00:00 -u ada -r a,b" in words
    assert said.code == 0
    assert "no job ran in this time" in said.out


def test_where_sacct_fails_its_words_are_shown(lastgood, fake):
    fake.answer("sacct", "echo 'sacct: error: slurmdbd: Connection refused' >&2; exit 1", call=2)
    said = lastgood("history", "--sacct")
    assert (said.code, said.out) == (69, "")
    assert "slurmdbd: Connection refused" in said.err


@pytest.mark.slow
def test_help_needs_no_polars():
    program = "import sys; from lastgood.cli.main import build_parser; build_parser('history'); print('polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
