"""A user's mistake gets a message with a way out and a documented code, never a traceback."""

import os
import subprocess
import sys

import pytest

from lastgood.cli.main import COMMANDS
from lastgood.core import layout
from lastgood.store.jobdir import create_job
from lastgood.store.record import Records, state_directory

LOOK = {
    "ls": [],
    "show": [],
    "verify": [],
    "prune": ["--keep-last", "1"],
    "pin": ["last"],
    "export": ["--to", "out.safetensors"],
}


def command(name, job):
    return [name, str(job), *LOOK[name]]


@pytest.fixture(params=LOOK)
def name(request, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return request.param


def test_a_job_that_does_not_exist(lastgood, tmp_path, name):
    said = lastgood(*command(name, tmp_path / "nowhere"))
    assert (said.code, said.out) == (66, "")
    assert "nowhere does not exist" in said.err
    assert "what to do" in said.err
    assert not (tmp_path / "nowhere").exists()


def test_a_directory_that_is_no_job(lastgood, tmp_path, name):
    said = lastgood(*command(name, tmp_path))
    assert said.code == 66
    assert "no job.json" in said.err
    assert os.listdir(tmp_path) == []


def test_a_file_instead_of_a_directory(lastgood, tmp_path, name):
    (tmp_path / "file").write_text("x")
    said = lastgood(*command(name, tmp_path / "file"))
    assert said.code == 66
    assert "is a file" in said.err


def test_a_job_of_a_newer_version(lastgood, tmp_path, name, monkeypatch):
    monkeypatch.setattr(layout, "FORMAT_VERSION", 2)
    job = create_job(tmp_path / "job")
    monkeypatch.setattr(layout, "FORMAT_VERSION", 1)
    said = lastgood(*command(name, job.path))
    assert said.code == 76
    assert "format 2" in said.err


def test_a_damaged_job_file(lastgood, job, name):
    (job.path / layout.JOB_FILE).write_text("{}")
    said = lastgood(*command(name, job.path))
    assert said.code == 65
    assert "job.json" in said.err


def test_checkpoints_directory_gone(lastgood, job, name):
    job.checkpoints.rmdir()
    said = lastgood(*command(name, job.path))
    assert said.code == 74
    assert "checkpoints" in said.err


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_permission(job, save_step, name, tmp_path):
    save_step(1)
    job.checkpoints.chmod(0o700)
    # Python itself may lie where another user cannot read: run the command once on nothing before.
    code = (
        "import os, sys\n"
        "import lastgood.store.survey, lastgood.store.export, lastgood.store.sweep, lastgood.store.lock\n"
        "from lastgood.cli import answers, main\n"
        "command, job, *rest = sys.argv[1:]\n"
        "main.main([command, '/nowhere', *rest])\n"
        "os.seteuid(65534)\n"
        "sys.exit(main.main([command, job, *rest]))\n"
    )
    # Other users must get as far as the job's directory.
    for directory in [job.path, *job.path.parents]:
        if str(directory).startswith("/tmp/"):
            directory.chmod(0o755)
    end = subprocess.run(
        [sys.executable, "-c", code, *command(name, job.path)], capture_output=True, text=True, timeout=180, check=False
    )
    assert end.returncode == 77, end.stderr
    assert "Traceback" not in end.stderr
    assert "Permission denied" in end.stderr


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_escapes(job, save_step):
    save_step(1, metrics={"gr\u00f6\u00dfe": 1.5})
    end = subprocess.run(
        [sys.executable, "-m", "lastgood", "ls", str(job.path)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    assert "gr\\xf6\\xdfe 1.5" in end.stdout


@pytest.mark.parametrize("word", ["", "--frobnicate", "frobnicate"])
def test_a_wrong_command_line(lastgood, word):
    assert lastgood(*([word] if word else [])).code == 2


@pytest.mark.parametrize("command", LOOK)
def test_help_names_an_example(lastgood, command):
    said = lastgood(command, "--help")
    assert said.code == 0
    assert f"lastgood {command} " in said.out.split("example")[1]
    assert set(LOOK) <= set(COMMANDS)


@pytest.mark.parametrize(
    "words", [["ls", "x", "--frob"], ["ls"], ["run", "--frob", "--", "true"], ["prune", "x", "--keep-last", "0"]]
)
def test_a_wrong_option_shows_the_usage_of_its_command_and_where_the_help_is(lastgood, words):
    said = lastgood(*words)
    assert said.code == 2
    assert said.err.startswith(f"usage: lastgood {words[0]} ")
    assert f"see `lastgood {words[0]} --help`" in said.err


@pytest.mark.parametrize("is_emptied", [False, True])
@pytest.mark.parametrize("command", [*LOOK, "status"])
def test_a_job_that_saved_and_is_not_there_now(lastgood, tmp_path, command, is_emptied):
    path = tmp_path / "gone"
    Records(state_directory(dict(os.environ))).note_saved(path, "0123456789abcdef", 7)
    if is_emptied:
        path.mkdir()
    said = lastgood(command, path, *LOOK.get(command, []))
    assert said.code == 66
    assert "a job here saved step 7 before: is it mounted?" in said.err
