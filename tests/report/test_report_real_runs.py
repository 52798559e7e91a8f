"""Reports of real runs that were really killed, held against what the journals and the checkpoints say."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from journals import whole_lines
from lastgood.core import layout
from lastgood.report.collect import report_on
from lastgood.report.model import Report
from lastgood.report.timeline import gaps
from lastgood.store.jobdir import open_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(280)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "numpy_loop.py"
LIMIT_S = 120.0

Line = dict[str, Any]


class Run:
    """`lastgood run` of a program, in a directory of its own."""

    def __init__(self, place: Path, options: list[str], command: list[str]) -> None:
        self.job = place / "job"
        words = [sys.executable, "-m", "lastgood", "run", "--job", os.fspath(self.job), *options, "--", *command]
        self.said = place / "said"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                words, cwd=place, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )

    def lines(self) -> dict[int, list[Line]]:
        journals = sorted((self.job / layout.ATTEMPTS_DIR).glob("*.events.jsonl"))
        return {int(path.name[:4]): whole_lines(path) for path in journals}

    def wait_until(self, is_so: Callable[[dict[int, list[Line]]], bool]) -> dict[int, list[Line]]:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if self.job.exists() and is_so(found := self.lines()):
                return found
            assert self.process.poll() is None, self.said.read_text()
            time.sleep(0.02)
        raise AssertionError("it has not come so far in time")

    def kill(self, attempt: int, saves: int) -> None:
        """SIGKILL to the program, when this attempt has committed so often."""
        found = self.wait_until(lambda lines: len(of(lines.get(attempt, []), "committed")) >= saves)
        os.kill(of(found[attempt], "launched")[0]["data"]["pid"], signal.SIGKILL)

    def finish(self) -> int:
        return self.process.wait(timeout=LIMIT_S)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def of(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["kind"] == kind]


def seconds(report: Report, kind: str, attempt: int | None) -> float:
    return sum(span.seconds for span in report.spans if (span.kind, span.attempt) == (kind, attempt))


@pytest.fixture(scope="module")
def killed_twice(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """numpy_loop.py, killed after some saves of its first two attempts, with metrics kept."""
    place = tmp_path_factory.mktemp("run")
    run = Run(place, ["--metrics", "job.prom"], [sys.executable, os.fspath(EXAMPLE), "--epochs", "60"])
    try:
        run.kill(1, 4)
        run.kill(2, 4)
        assert run.finish() == 0
    finally:
        run.end()
    return run


def test_the_time_of_a_real_run_is_divided_as_its_journals_say(killed_twice: Run) -> None:
    report, lines = report_on(open_job(killed_twice.job)), killed_twice.lines()
    assert [attempt.outcome for attempt in report.attempts] == ["killed", "killed", "finished"]
    assert not gaps(report.spans)
    claims = {
        number: json.loads((killed_twice.job / layout.ATTEMPTS_DIR / layout.attempt_file(number)).read_text())[
            "started"
        ]
        for number in lines
    }
    ended = {number: of(found, "ended")[0]["at"] for number, found in lines.items()}
    assert (report.spans[0].begin, report.spans[-1].end) == (claims[1], ended[3])
    for number, found in lines.items():
        first_step = of(found, "stepped")[0]["at"]
        assert seconds(report, "restarting", number) == pytest.approx(first_step - claims[number], abs=1e-6)
        if number > 1:
            between = claims[number] - ended[number - 1]
            line = report.attempts[number - 1]
            assert line.restart_s == pytest.approx(between + first_step - claims[number], abs=1e-6)
    assert seconds(report, "restarting", None) == pytest.approx(claims[2] - ended[1] + claims[3] - ended[2], abs=1e-6)


def test_what_a_real_kill_lost_is_what_was_done_again(killed_twice: Run) -> None:
    report, lines = report_on(open_job(killed_twice.job)), killed_twice.lines()
    for number in (1, 2):
        ended, started = of(lines[number], "ended")[0], of(lines[number + 1], "started")[0]
        resumed_at = started["data"]["step"]
        line = report.attempts[number - 1]
        reached = max(line_["data"].get("step") or 0 for line_ in lines[number])
        assert line.lost_steps == reached - resumed_at >= 0
        kept_at = max(one["at"] for one in of(lines[number], "committed") if one["data"]["step"] <= resumed_at)
        if line.lost_steps:
            assert line.lost_s == pytest.approx(ended["at"] - kept_at)
        # Where no step was lost the last commit parts no spans.
        own = [span for span in report.spans if span.attempt == number and span.end > kept_at]
        in_it = sum(span.end - max(span.begin, kept_at) for span in own)
        assert in_it == pytest.approx(ended["at"] - kept_at, abs=1e-3)
        assert seconds(report, "lost", number) <= ended["at"] - kept_at + 1e-6
        # The steps between the two were logged by both attempts.
        values = killed_twice.job / layout.ATTEMPTS_DIR / layout.values_file(number + 1, 0)
        again = {json.loads(text).get("step") for text in values.read_text().splitlines()}
        assert set(range(resumed_at + 1, reached + 1)) <= again


def test_its_saves_and_stalls_are_those_of_the_journal(killed_twice: Run) -> None:
    report, lines = report_on(open_job(killed_twice.job)), killed_twice.lines()
    commits = [line for number in lines for line in of(lines[number], "committed")]
    assert [(save.step, save.at, save.write_s) for save in report.saves] == [
        (line["data"]["step"], line["at"], line["data"]["write_s"]) for line in commits
    ]
    stalls = {
        (number, line["data"]["step"]): line["data"]["stall_s"]
        for number in lines
        for line in of(lines[number], "stalled")
    }
    assert stalls
    assert {(save.attempt, save.step): save.stall_s for save in report.saves if save.stall_s is not None} == stalls


def test_its_checkpoints_are_those_on_disk_with_the_times_of_their_ranks(killed_twice: Run) -> None:
    report = report_on(open_job(killed_twice.job))
    there = {path.parent.name for path in killed_twice.job.glob("checkpoints/*/manifest.json")}
    assert {checkpoint.name for checkpoint in report.checkpoints} == there
    newest = report.checkpoints[0]
    manifest = json.loads((killed_twice.job / "checkpoints" / newest.name / "manifest.json").read_text())
    assert newest.bytes == sum(part["bytes"] + part["data_bytes"] for part in manifest["parts"])
    (write,) = newest.ranks
    assert write.write_s is not None and 0 <= write.write_s <= manifest["write_s"]
    assert report.attempts[1].from_checkpoint.startswith(f"{report.attempts[1].from_step:012d}-0001")


def test_the_metrics_of_its_launcher_say_the_same_at_the_end(killed_twice: Run) -> None:
    report = report_on(open_job(killed_twice.job))
    text = (killed_twice.job.parent / "job.prom").read_text()
    found = {
        (
            sample.name,
            tuple(value for name, value in sorted(sample.labels.items()) if not name.startswith("job_")),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["lastgood_job_state", ("finished",)] == 1
    assert found["lastgood_job_attempts_total", ()] == 3
    assert found["lastgood_job_saves_total", ()] == len(report.saves)
    for share in report.shares:
        assert found["lastgood_job_time_seconds", (share.kind,)] == pytest.approx(share.seconds, abs=1e-6)
    assert "metrics" not in (killed_twice.job / layout.LOG_FILE).read_text()


def test_metrics_that_cannot_be_written_are_said_once_and_cost_the_job_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, ["--metrics", "no/such/job.prom"], [sys.executable, os.fspath(EXAMPLE), "--epochs", "8"])
    try:
        assert run.finish() == 0
    finally:
        run.end()
    log = (run.job / layout.LOG_FILE).read_text()
    assert log.count("the metrics are not kept fresh") == 1
    assert report_on(open_job(run.job)).state == "finished"


def test_the_metrics_tell_of_a_launcher_that_was_killed(tmp_path: Path) -> None:
    """Nobody tells the process that writes them: it sees that its launcher is gone."""
    run = Run(tmp_path, ["--metrics", "job.prom"], [sys.executable, os.fspath(EXAMPLE), "--epochs", "3000"])
    file = tmp_path / "job.prom"
    try:
        run.wait_until(lambda lines: len(of(lines.get(1, []), "committed")) >= 3 and file.exists())
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        end = time.monotonic() + LIMIT_S
        # The program is told by the kernel, saves, and stops.
        while 'state="stopped, unfinished"} 1' not in (text := file.read_text()) and time.monotonic() < end:
            time.sleep(0.05)
        assert re.findall(r'lastgood_job_state\{.*state="(.*)"\} 1', text) == ["stopped, unfinished"]
        assert 'outcome="launcher lost"} 1' in text
    finally:
        run.end()


def test_a_hang_of_a_real_run_lasts_from_its_last_sign_of_life(tmp_path: Path) -> None:
    program = tmp_path / "still.py"
    program.write_text(
        "import os, time, numpy as np, lastgood\n"
        "w = np.zeros(8)\n"
        "run = lastgood.Run({'w': w}, every=5)\n"
        "for step in run.steps(40):\n"
        "    w += 1\n"
        "    time.sleep(0.01)\n"
        "    if step == 22 and not os.path.exists('was-still'):\n"
        "        open('was-still', 'w').write(os.environ['LASTGOOD_ATTEMPT'])\n"
        "        time.sleep(1000)\n"
    )
    run = Run(tmp_path, ["--hang-timeout", "6s"], [sys.executable, os.fspath(program)])
    try:
        assert run.finish() == 0, run.said.read_text()
    finally:
        run.end()
    # On a machine that is busy an attempt before it may not have come as far as to start.
    still = int((tmp_path / "was-still").read_text())
    report, lines = report_on(open_job(run.job)), run.lines()
    (hang,) = of(lines[still], "hang")
    assert hang["data"]["silent_s"] >= 6
    assert seconds(report, "hung", still) == pytest.approx(hang["data"]["silent_s"], abs=1e-6)
    assert seconds(report, "stopping", still) == pytest.approx(
        of(lines[still], "ended")[0]["at"] - hang["at"], abs=1e-6
    )
    assert report.attempts[still - 1].outcome == "hang"
    assert [mark.kind for mark in report.marks if mark.attempt == still] == ["hang", "fault"]
