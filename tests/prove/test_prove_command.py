"""`lastgood prove` as its user meets it: the page, the exit codes, JSON, JUnit, and bad calls."""

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import prove_loops as loops
import psutil
import pytest

from lastgood.prove.document import ProveAnswer
from lastgood.prove.junit import junit
from lastgood.prove.page import page


def lastgood(directory: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", loops.LASTGOOD, "prove", *map(str, words)]
    looks = {"LOOKS": str(directory.with_name("looks"))}
    return subprocess.run(
        command, cwd=directory, env={**os.environ, **looks}, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def write(directory: Path, source: str) -> Path:
    (directory / "train.py").write_text(source)
    return directory


@pytest.mark.slow
def test_the_page_shows_each_run_and_ends_with_the_answer(mine: Path):
    said = lastgood(write(mine, loops.RIGHT), "--kills", 1, "--", sys.executable, "train.py")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "Traceback" not in said.stderr
    lines = said.stdout.splitlines()
    assert any(line.startswith("killed-1 ") and line.endswith("the end, bit for bit") for line in lines)
    assert lines[-1].startswith("IDENTICAL: 60 logged values")
    assert "undisturbed-2: as the first" in said.stderr
    assert "kept" not in said.stdout
    assert sorted(path.name for path in mine.iterdir()) == ["train.py"], "the user's own directory is left alone"


@pytest.mark.slow
def test_a_difference_is_exit_code_1_and_its_runs_are_kept_and_named(mine: Path, tmp_path: Path):
    write(mine, loops.NO_RANDOM_STATE)
    report = tmp_path / "proof.xml"
    kept = tmp_path / "kept"
    said = lastgood(mine, "--kills", 1, "--json", "--keep", kept, "--junit", report, "--", sys.executable, "train.py")
    assert said.returncode == 1
    answer = msgspec.json.decode(said.stdout, type=ProveAnswer)
    assert answer.answer == "diverged"
    assert answer.runs[0].kills[0].resumed_from == answer.runs[0].parts[0].equal_to
    assert answer.runs[0].parts[0].first is not None
    assert answer.kept == str(kept)
    assert (kept / "killed-1" / "output.txt").read_text().count("step 60 ") == 1
    suite = ET.parse(report).getroot()
    assert int(suite.get("tests", "0")) == len(suite.findall(".//testcase"))
    assert [case.get("name") for case in suite.findall(".//testcase[failure]")] == [
        "killed-1: logged values",
        "killed-1: values in final files",
    ]


@pytest.mark.slow
def test_a_tolerance_that_is_wide_enough_makes_it_yes(mine: Path):
    write(mine, loops.NO_RANDOM_STATE)
    words = ("--kills", 1, "--rtol", 100, "--atol", 1e3, "--file", "final.npy", "--", sys.executable, "train.py")
    said = lastgood(mine, *words)
    assert said.returncode == 0, said.stdout
    assert "WITHIN TOLERANCE" in said.stdout


@pytest.mark.slow
def test_a_command_that_never_saves_is_exit_code_3(mine: Path):
    said = lastgood(write(mine, loops.NEVER_SAVES), "--", sys.executable, "train.py")
    assert said.returncode == 3
    assert "never checkpoints" in said.stdout
    assert "--checkpoints" in said.stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), 2, "which command"),
        (("--", "no-such-program-anywhere"), 127, "no such command"),
        (("--kills", "0", "--", sys.executable, "x.py"), 2, "--kills 0"),
        (("--limit", "5", "--", sys.executable, "x.py"), 2, "not a duration"),
        (("--value", "loss", "--", sys.executable, "x.py"), 2, "NAME=REGEX"),
        (("--value", "loss=loss", "--", sys.executable, "x.py"), 2, "no group"),
        (("--step-pattern", "step (", "--", sys.executable, "x.py"), 2, "no regular expression"),
        (("--again", "--app", "gromacs", "--", sys.executable, "x.py"), 2, "--again and --app"),
        (("--resume-arg=--resume", "--", sys.executable, "x.py"), 2, "--checkpoints"),
        (("--resume-command", "python 'x", "--", sys.executable, "x.py"), 2, "quotes"),
        (("--directory", "nowhere", "--", sys.executable, "x.py"), 2, "no such directory"),
        (("--rtol", "-1", "--", sys.executable, "x.py"), 2, "--rtol"),
        (("--keep", ".", "--", sys.executable, "x.py"), 2, "not empty"),
    ],
)
def test_a_bad_call_says_what_is_wrong_before_anything_runs(
    mine: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    told: str,
):
    from lastgood.cli.main import main

    (mine / "x.py").write_text("raise SystemExit('it ran')")
    monkeypatch.chdir(mine)
    try:
        found = main(["prove", *words])
    except SystemExit as end:
        found = int(end.code or 0)
    out, err = capfd.readouterr()
    assert found == code, err
    assert told in err
    assert "it ran" not in out + err


@pytest.fixture
def linked(mine: Path, tmp_path: Path) -> Path:
    """A job with its checkpoints on another disk."""
    (tmp_path / "scratch").mkdir()
    (mine / "out").symlink_to(tmp_path / "scratch")
    (mine / "x.py").write_text("raise SystemExit('it ran')")
    return mine


def test_a_link_to_the_users_own_checkpoints_is_refused_before_anything_runs(
    linked: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    from lastgood.cli.main import main

    kept = tmp_path / "kept"
    words = ["prove", "--directory", str(linked), "--keep", str(kept), "--", sys.executable, "x.py"]
    assert main(words) == 2
    said = capfd.readouterr().err
    assert f"out -> {tmp_path / 'scratch'}" in said and "--leave-out out" in said and "--through-links" in said
    assert not kept.exists()


@pytest.mark.slow
def test_links_that_are_meant_are_named_and_followed(linked: Path, tmp_path: Path):
    said = lastgood(linked, "--through-links", "--", sys.executable, "x.py")
    assert said.returncode == 3, said.stderr
    assert f"changes your own files: out -> {tmp_path / 'scratch'}" in said.stderr
    assert "it ran" in said.stdout


def answer_of(**changes: object) -> ProveAnswer:
    members = {
        "format": 1,
        "command": ["python", "a b.py"],
        "answer": "unknown",
        "reason": "undisturbed, it ends with exit code 1: \x1b[31m<bad> & worse\x00",
        "way": "",
        "steps": None,
        "checkpoints": 0,
        "checkpoint_files": [],
        "took_s": 1.5,
        "pair": [],
        "runs": [],
        "why": [],
        "notes": [],
        "output_tail": ["\x1b[2J]]>"],
        "kept": "",
    }
    return msgspec.convert({**members, **changes}, ProveAnswer)


def test_junit_is_well_formed_whatever_a_program_has_printed():
    root = ET.fromstring(junit(answer_of()).encode())
    (case,) = root.findall(".//testcase")
    (error,) = case.findall("error")
    assert "<bad> & worse" in error.get("message", "")
    assert root.get("errors") == "1"


def part_of(**changes: object) -> dict[str, object]:
    members = {
        "name": "logged values",
        "kind": "identical",
        "compared": 30,
        "differing": 0,
        "beyond": 0,
        "equal_to": None,
    }
    members |= dict.fromkeys(
        ["ends_at", "should_end_at", "first", "largest_absolute", "largest_relative", "largest_ulp"]
    )
    return {**members, "items": [], "notes": [], **changes}


def run_of(answer: str, *parts: dict[str, object]) -> ProveAnswer:
    run = {"name": "killed-1", "answer": answer, "reason": "as it is", "also": [], "exit_code": 0, "took_s": 1.0}
    return answer_of(answer=answer, runs=[{**run, "kills": [], "parts": list(parts)}], pair=[part_of()])


def test_a_run_that_ended_at_another_step_fails_in_junit_and_is_not_equal_to_the_end_on_the_page():
    answer = run_of("diverged", part_of(ends_at=30, should_end_at=50))
    root = ET.fromstring(junit(answer).encode())
    (failure,) = root.findall(".//testcase[@name='killed-1: logged values']/failure")
    assert failure.text == "it ended at step 30, the undisturbed run at step 50; 0 of 30 logged values differ"
    assert root.get("failures") == "1"
    (line,) = (line for line in page(answer).splitlines() if line.startswith("killed-1"))
    assert line.endswith("not in its last step")


def test_a_run_that_diverged_without_a_part_that_differs_fails_in_junit_itself():
    root = ET.fromstring(junit(run_of("diverged", part_of())).encode())
    assert [case.get("name") for case in root.findall(".//testcase[failure]")] == ["killed-1: resumes"]


def test_what_cannot_be_compared_is_not_equal_to_the_end_on_the_page():
    answer = run_of("unknown", part_of(), part_of(name="values in final files", kind="not comparable", compared=0))
    (line,) = (line for line in page(answer).splitlines() if line.startswith("killed-1"))
    assert line.endswith("not known of values in final files")


def test_the_page_cannot_play_tricks_with_a_terminal():
    assert "\x1b" not in page(answer_of())
    assert "UNKNOWN: undisturbed, it ends with exit code 1" in page(answer_of())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_proof_that_is_told_to_end_ends_every_process_of_the_job(mine: Path, tmp_path: Path, number: int, code: int):
    (mine / "train.py").write_text("import time\nprint('step 1', flush=True)\ntime.sleep(600)\n")
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "lastgood", "prove", "--keep", str(kept), "--", sys.executable, "train.py"]
    proof = subprocess.Popen(command, cwd=mine, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output = kept / "undisturbed-1" / "output.txt"
    end = time.monotonic() + 60
    while not (output.exists() and "step 1" in output.read_text()):
        assert time.monotonic() < end, "it was never started"
        time.sleep(0.02)
    proof.send_signal(number)
    proof.communicate(timeout=60)
    assert proof.returncode == code
    assert [process for process in psutil.process_iter(["cwd"]) if str(kept) in (process.info["cwd"] or "")] == []
