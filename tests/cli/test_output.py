"""What a command answers when its output cannot be written to the end."""

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from lastgood.cli import output
from lastgood.store.jobdir import JobDirectory

pytestmark = pytest.mark.slow


def run(words: Sequence[object], **popen: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lastgood", *map(str, words)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=180, check=False, **popen)  # type: ignore[call-overload, no-any-return]


def with_closed_pipe(*words: object) -> "subprocess.CompletedProcess[str]":
    """The command, when the reader of its output has left."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return run(words, stdout=writer)
    finally:
        os.close(writer)


@pytest.fixture
def damaged(job: JobDirectory, save_step) -> JobDirectory:
    """A job with one damaged checkpoint, the oldest of several."""
    for step in (1, 2, 3):
        save_step(step)
    data = job.checkpoints / "000000000001-0001" / "rank-00000.safetensors"
    os.truncate(data, data.stat().st_size - 1)
    return job


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_verify_answers_damaged_although_its_reader_has_left(
    damaged: JobDirectory, options: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Unbuffered, the very first line fails, which is written before the damage is found.
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    end = with_closed_pipe("verify", damaged.path, *options)
    assert (end.returncode, end.stderr) == (65, "")


@pytest.mark.parametrize("command", ["ls", "show", "verify"])
def test_no_command_answers_0_when_its_reader_has_left(job: JobDirectory, save_step, command: str) -> None:
    for step in range(1, 30):
        save_step(step)
    end = with_closed_pipe(command, job.path)
    assert (end.returncode, end.stderr) == (141, "")


def test_an_error_keeps_its_code_when_nobody_reads_it(job: JobDirectory) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "lastgood", "ls", str(job.path / "nowhere")]
    end = subprocess.run(command, stdout=writer, stderr=writer, timeout=180, check=False)
    os.close(writer)
    assert end.returncode == 66


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_said_and_is_74_unless_the_answer_is_worse(damaged: JobDirectory) -> None:
    for command, code in (("ls", 74), ("verify", 65)):
        with open("/dev/full", "wb") as full:
            end = run([command, damaged.path], stdout=full)
        assert end.returncode == code
        assert end.stderr == "lastgood: cannot write the output: No space left on device\n"


def test_a_parent_that_closed_standard_output_gets_the_answer(damaged: JobDirectory) -> None:
    for command, code in (("ls", 0), ("verify", 65)):
        words = [sys.executable, "-m", "lastgood", command, str(damaged.path)]
        end = subprocess.run(["bash", "-c", 'exec "$@" >&-', "bash", *words], timeout=180, check=False)
        assert end.returncode == code


def test_output_that_arrives_is_no_failure() -> None:
    output.put("words")
    assert output.finish() is None
