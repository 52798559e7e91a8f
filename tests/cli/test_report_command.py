"""`lastgood report`: its forms, its exit codes, and what it does about jobs that cannot be read."""

import csv
import fcntl
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lastgood.core import layout
from lastgood.store.jobdir import JobDirectory, create_job
from report.built import job_of, told_attempt

Lastgood = Any


@pytest.fixture
def killed_once(tmp_path: Path) -> JobDirectory:
    return job_of(
        tmp_path / "runs" / "a",
        told_attempt(1, 0, commits=((100, 50),), reached=80, ended=160),
        told_attempt(2, 165, from_step=50, reached=200, ended=310, outcome="finished"),
    )


def test_text_is_the_default_and_plain_where_it_is_piped(lastgood: Lastgood, killed_once: JobDirectory) -> None:
    said = lastgood("report", killed_once.path)
    assert (said.code, said.err) == (0, "")
    assert "WHERE THE TIME WENT" in said.out and "TIME LINE" in said.out and "\x1b" not in said.out
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "is_ascii"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "C.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"}, True),
    ],
)
def test_without_utf_8_it_is_ascii(killed_once: JobDirectory, given: dict[str, str], is_ascii: bool) -> None:
    command = [sys.executable, "-m", "lastgood", "report", os.fspath(killed_once.path)]
    said = subprocess.run(command, env={**os.environ, **given}, capture_output=True, timeout=100, check=True).stdout
    assert b"# useful" in said if is_ascii else "█ useful".encode() in said
    assert said.isascii() == is_ascii


@pytest.mark.slow
def test_on_a_terminal_it_is_coloured_and_as_wide_as_that(killed_once: JobDirectory) -> None:
    def shown(**environment: str) -> str:
        """What it prints on a pseudo terminal of 100 columns."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "TERM")}
        command = [sys.executable, "-m", "lastgood", "report", os.fspath(killed_once.path)]
        process = subprocess.Popen(command, stdout=theirs, env={**env, "LC_ALL": "C.UTF-8", **environment})
        os.close(theirs)
        pieces = []
        with suppress(OSError):
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        os.close(ours)
        assert process.wait(100) == 0
        return b"".join(pieces).decode()

    coloured = shown(TERM="xterm")
    assert "\x1b[32m" in coloured
    plain = shown(TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in plain and "\x1b" not in shown(TERM="dumb")
    widest = max(len(line) for line in plain.splitlines())
    assert 80 < widest <= 100


def test_json_is_the_documented_answer(lastgood: Lastgood, killed_once: JobDirectory) -> None:
    said = lastgood("report", "--json", killed_once.path)
    fleet = said.answer("report")
    assert (fleet.format, fleet.version) == ("lastgood report", 1)
    assert [job.id for job in fleet.jobs] == [killed_once.id]
    assert (
        lastgood("report", "--format", "json", killed_once.path).answer("report").jobs[0].spans == fleet.jobs[0].spans
    )


def test_csv_has_a_row_for_each_attempt(lastgood: Lastgood, killed_once: JobDirectory) -> None:
    rows = list(csv.DictReader(io.StringIO(lastgood("report", "--format", "csv", killed_once.path).out)))
    assert [(row["attempt"], row["outcome"], row["reached_step"]) for row in rows] == [
        ("1", "killed", "80"),
        ("2", "finished", "200"),
    ]


def test_the_page_and_the_metrics_are_written_in_place_of_older_ones(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    for form, begin in (("html", "<!doctype html>"), ("openmetrics", "# TYPE lastgood_job_")):
        file = tmp_path / f"it.{form}"
        file.write_text("old")
        said = lastgood("report", killed_once.path, "--format", form, "--output", file)
        assert (said.code, said.out) == (0, "")
        assert file.read_text().startswith(begin)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it.html", "it.openmetrics", "runs"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    said = lastgood("report", killed_once.path, "--output", tmp_path / "no" / "it.txt")
    assert said.code == 74 and "no/it.txt" in said.err


@pytest.mark.parametrize("name", ["", ".", "/", "runs"])
def test_a_name_that_can_be_no_file_is_refused_before_anything_is_read(
    lastgood: Lastgood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    said = lastgood("report", "typo", "--output", name)
    assert said.code == 2 and f"--output {name!r}" in said.err and "typo" not in said.err


def test_a_job_that_cannot_be_read_may_have_a_name_that_is_no_text(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    other = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    said = lastgood("report", "--json", killed_once.path, other)
    assert said.code == 66
    (bad,) = said.answer("report").not_read
    assert bad.job == f"{tmp_path}/\\udcff" and "\\udcff" in bad.error


def test_of_several_jobs_the_good_ones_are_reported_and_the_exit_code_tells_of_the_bad(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    said = lastgood("report", tmp_path / "typo", killed_once.path)
    assert said.code == 66
    assert "typo does not exist" in said.err
    assert "not read:" in said.out and "WHERE THE TIME WENT" in said.out
    fleet = lastgood("report", "--json", killed_once.path, tmp_path / "typo").answer("report")
    assert [(one.job, len(fleet.jobs)) for one in fleet.not_read] == [(str(tmp_path / "typo"), 1)]


def test_a_job_of_a_newer_version_does_not_hide_the_others(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    from lastgood.core.manifest import Job
    from lastgood.core.sealed import seal

    other = create_job(tmp_path / "runs" / "b")
    (other.path / layout.JOB_FILE).write_bytes(seal(Job(9, other.id, other.job.created)))
    said = lastgood("report", killed_once.path, other.path)
    assert said.code == 76 and "format 9" in said.err and "WHERE THE TIME WENT" in said.out


@pytest.mark.parametrize("form", ["text", "json", "csv", "html", "openmetrics"])
def test_a_job_without_attempts_has_a_report_in_every_form(lastgood: Lastgood, tmp_path: Path, form: str) -> None:
    said = lastgood("report", create_job(tmp_path / "new").path, "--format", form)
    assert said.code == 0 and said.out


def test_a_directory_of_jobs_is_no_job_and_they_are_named(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    said = lastgood("report", tmp_path / "runs")
    assert said.code == 66 and said.out == ""
    assert f"lastgood report {killed_once.path}" in said.err


def test_a_job_that_is_named_twice_is_reported_once(lastgood: Lastgood, killed_once: JobDirectory) -> None:
    assert len(lastgood("report", "--json", killed_once.path, killed_once.path).answer("report").jobs) == 1


def test_a_job_under_two_names_of_one_directory_is_reported_once(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    (tmp_path / "alias").symlink_to(killed_once.path)
    said = lastgood("report", "--json", killed_once.path, tmp_path / "alias").answer("report")
    assert [job.job for job in said.jobs] == [str(killed_once.path)]


def test_a_copy_of_a_job_is_reported_on_and_both_say_so(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    copy = tmp_path / "runs" / "copy"
    shutil.copytree(killed_once.path, copy)
    jobs = lastgood("report", "--json", killed_once.path, copy, killed_once.path).answer("report").jobs
    assert [job.job for job in jobs] == [str(killed_once.path), str(copy)]
    assert [other in job.notes[-1] for job, other in zip(jobs, [str(copy), str(killed_once.path)], strict=True)] == [
        True
    ] * 2
    assert "counts twice in the sums" in jobs[0].notes[-1]


PLAN = ["plan", "--every", "10min", "--write", "1min", "--nodes", "4", "--mtti", "12h", "--json"]


def test_a_plan_is_compared_with(lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(lastgood(*PLAN).out)
    told = json.loads(plan.read_text())
    interval = lastgood("report", "--json", "--plan", plan, killed_once.path).answer("report").jobs[0].interval
    assert (interval.planned_s, interval.planned_by) == (told["submit"]["interval_s"], str(plan))
    assert interval.planned_ettr == told["cost"]["effective_share"]


def test_a_file_that_is_no_plan_is_refused(lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    said = lastgood("report", "--plan", tmp_path / "x.json", killed_once.path)
    assert said.code == 2 and "not a plan" in said.err and "submitted" not in said.err


def test_a_submission_notes_its_plan_and_the_report_compares_with_it(
    lastgood: Lastgood, killed_once: JobDirectory, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(lastgood(*PLAN).out)
    script = lastgood("script", "--job", killed_once.path, "--plan", plan, "--", "python", "x.py").out
    (killed_once.path / layout.BATCH_FILE).write_text(script)
    interval = lastgood("report", "--json", killed_once.path).answer("report").jobs[0].interval
    assert interval.planned_by == "batch.sh"
    assert interval.planned_s == pytest.approx(json.loads(plan.read_text())["submit"]["interval_s"], abs=0.05)


def test_a_submission_hands_the_metrics_on(lastgood: Lastgood, tmp_path: Path) -> None:
    script = lastgood("script", "--job", tmp_path / "job", "--metrics", "/m/x.prom", "--", "python", "x.py").out
    assert "--metrics /m/x.prom" in script.splitlines()[-2]


def test_verify_reads_the_checkpoints(lastgood: Lastgood, killed_once: JobDirectory) -> None:
    from lastgood.store.writer import CheckpointWriter

    writer = CheckpointWriter(killed_once, 50, 1, fence=lambda: None)
    writer.write_part(0, [], {"a": 1})
    writer.commit(1)
    before = lastgood("report", "--json", killed_once.path).answer("report").jobs[0].checkpoints[0]
    after = lastgood("report", "--json", "--verify", killed_once.path).answer("report").jobs[0].checkpoints[0]
    assert (before.verified, after.verified) == ("restored", "read")


def test_it_changes_nothing(lastgood: Lastgood, killed_once: JobDirectory) -> None:
    def content() -> dict[str, bytes]:
        return {os.fspath(path): path.read_bytes() for path in killed_once.path.rglob("*") if path.is_file()}

    before = content()
    for form in ("text", "json", "csv", "html", "openmetrics"):
        lastgood("report", killed_once.path, "--format", form, "--verify")
    assert content() == before


def test_a_call_without_jobs_is_wrong(lastgood: Lastgood) -> None:
    said = lastgood("report")
    assert said.code == 2 and re.search("required: JOB", said.err)
