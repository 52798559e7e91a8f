"""Starting commands: their names, arguments, environment and output, and what they leave behind."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from .conftest import Launcher, wait_for, without_root_powers

pytestmark = pytest.mark.slow


def test_a_command_that_does_not_exist_is_127_and_touches_nothing(launcher: Launcher) -> None:
    for command in ("no-such-command-anywhere", "./missing.sh"):
        ended = launcher.run(command)
        assert ended.code == 127
        assert command in ended.err
        assert "Traceback" not in ended.err
    assert not launcher.job.exists()


def test_a_command_that_cannot_be_executed_is_126_and_touches_nothing(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    ended = launcher.run("./plain.sh")
    assert ended.code == 126
    assert "chmod +x" in ended.err
    ended = launcher.run(str(tmp_path))
    assert ended.code == 126
    assert "is a directory" in ended.err
    assert not launcher.job.exists()


def test_a_script_without_its_interpreter_and_a_file_that_is_no_program_are_told_apart(
    launcher: Launcher, tmp_path: Path
) -> None:
    for name, content, code in (("a", "#!/no/such/interpreter\n", 127), ("b", "\x01\x02 no program", 126)):
        file = tmp_path / name
        file.write_text(content)
        file.chmod(0o755)
        ended = launcher.run(file)
        assert ended.code == code, ended.err
        assert "Traceback" not in ended.err
    assert launcher.outcomes() == ["refused", "refused"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which command?"),
        (["--grace", "30", "--", "true"], "not a duration"),
        (["--max-restarts", "-1", "--", "true"], "0 or more"),
        (["--restart-on", "x", "--", "true"], "exit codes"),
        (["--time-limit", "0s", "--", "true"], "more than nothing"),
        (["--resume-arg", "--from {checkpoint}", "--", "true"], "--checkpoints"),
        (["--checkpoints", "out/*", "--resume-arg", "--from it", "--", "true"], "{checkpoint}"),
        (["--checkpoints", "out/*", "--resume-arg", "--from '{checkpoint}", "--", "true"], "quot"),
        (["--checkpoints", "out/", "--", "true"], "names no file"),
    ],
)
def test_a_wrong_call_is_2_with_its_remedy_and_touches_nothing(
    launcher: Launcher, words: list[str], message: str
) -> None:
    ended = launcher.run(*(words or ["--"]))
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert not launcher.job.exists()


HOSTILE = [
    "a b",
    "it's",
    '"quoted"',
    "two\nlines",
    "$HOME",
    "`id`",
    ";rm",
    "*",
    "caf\udce9",
    "\x1b[31m",
    "",
    "--job",
    "ü",
]


def test_arguments_of_any_kind_arrive_as_they_are_and_are_shown_quoted(launcher: Launcher) -> None:
    program = "import os, sys\nprint([os.fsencode(a) for a in sys.argv[1:]])"
    ended = launcher.run(sys.executable, "-c", program, *HOSTILE)
    assert ended.code == 0
    assert str([os.fsencode(word) for word in HOSTILE]) in ended.out
    assert "\x1b[31m" not in ended.err
    assert "$'two\\nlines'" in ended.err


@pytest.mark.parametrize("name", ["a b", "it's", "two\nlines", "caf\udce9", "$(id)", "-rf"])
def test_a_job_directory_and_a_command_of_any_name_work(launcher: Launcher, tmp_path: Path, name: str) -> None:
    directory = tmp_path / "dir" / name
    directory.mkdir(parents=True)
    command = directory / name
    command.write_text('#!/bin/sh\necho ran "$LASTGOOD_JOB"\n')
    command.chmod(0o755)
    process = launcher.start(command, job=directory / "job")
    ended = launcher.end_of(process)
    assert ended.code == 0, ended.err
    assert f"ran {directory / 'job'}" in ended.out
    assert (directory / "job" / "job.json").exists()


def test_standard_output_and_error_stay_apart_and_both_are_in_the_log_with_markers(launcher: Launcher) -> None:
    for _ in range(2):
        ended = launcher.run("bash", "-c", "echo to out; echo to err >&2")
        assert ended.out == "to out\n"
        assert "\nto err\n" in ended.err
        assert "\nto out\n" not in ended.err
    assert launcher.log.count("\nto out\n") == launcher.log.count("\nto err\n") == 2
    assert "lastgood: attempt 1 of" in launcher.log
    assert "lastgood: attempt 2 of" in launcher.log


def test_much_output_arrives_whole(launcher: Launcher) -> None:
    program = "import sys\nfor i in range(60000): print(i, 'x' * 50)\nprint('last', file=sys.stderr)"
    ended = launcher.run(sys.executable, "-c", program)
    lines = ended.out.splitlines()
    assert len(lines) == 60000
    assert lines[-1].startswith("59999 ")
    assert "last\n" in ended.err


def test_output_without_a_line_end_and_bytes_that_are_no_text_arrive(launcher: Launcher) -> None:
    process = launcher.start("bash", "-c", "printf 'no end \\377'")
    ended = launcher.end_of(process)
    assert ended.out.encode("utf-8", "surrogateescape") == b"no end \xff"


def test_a_reader_that_takes_nothing_does_not_keep_signals_away(launcher: Launcher) -> None:
    reader, writer = os.pipe()
    process = launcher.start("bash", "-c", "yes", stdout=writer)
    os.close(writer)
    log = launcher.job / "log.txt"
    wait_for(lambda: log.exists() and log.stat().st_size > 100_000, "output in the log")
    process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 75
    os.close(reader)


def test_a_reader_that_is_gone_does_not_stop_the_job(launcher: Launcher) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = launcher.start("bash", "-c", "for i in 1 2 3; do echo line $i; sleep 0.1; done", stdout=writer)
    os.close(writer)
    assert launcher.end_of(process).code == 0
    assert "line 3" in launcher.log


def test_a_parent_that_closed_standard_output_does_not_get_it_into_our_files(launcher: Launcher) -> None:
    run = [sys.executable, "-m", "lastgood", "run", "--job", str(launcher.job), "--", "echo", "words"]
    line = 'exec "$@" <&- >&- 2>&-'
    ended = subprocess.run(["bash", "-c", line, "bash", *run], env=launcher.environment, timeout=180, check=False)
    assert ended.returncode == 0
    files = [path for path in launcher.job.rglob("*") if path.is_file() and b"words\n" in path.read_bytes()]
    assert files == [launcher.job / "log.txt"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_below_the_log_does_not_stop_the_job_and_is_said_once(launcher: Launcher) -> None:
    assert launcher.run("true").code == 0
    (launcher.job / "log.txt").unlink()
    os.mknod(launcher.job / "log.txt", 0o666 | stat.S_IFCHR, os.stat("/dev/full").st_rdev)
    ended = launcher.run("bash", "-c", "for i in 1 2 3; do echo line $i; sleep 0.1; done")
    assert ended.code == 0
    assert ended.out == "line 1\nline 2\nline 3\n"
    assert ended.err.count("No space left on device") == 1


def test_quiet_says_only_what_went_wrong(launcher: Launcher) -> None:
    assert launcher.run("--quiet", "--", "true").err == ""
    ended = launcher.run("--quiet", "--no-restart", "--", "bash", "-c", "kill -9 $$")
    assert "ended by SIGKILL" in ended.err
    assert "attempt" not in ended.err


def test_what_the_command_left_in_the_background_is_ended(launcher: Launcher) -> None:
    ended = launcher.run("bash", "-c", "sleep 600 & setsid sleep 600 & (setsid sleep 600 &) ; echo started")
    assert ended.code == 0
    assert "3 process(es) of it still run" in ended.err
    assert launcher.survivors() == []


ORPHAN_MAKER = """
import os, sys, time
# Makes ten orphans that end at once; their zombies become the launcher's.
for _ in range(10):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.1)
            os._exit(0)
        os._exit(0)
    os.wait()
print("orphans made", flush=True)
time.sleep(600)
"""


def test_orphans_become_the_launchers_and_are_reaped(launcher: Launcher, script) -> None:
    launcher.environment["LASTGOOD_KEEPER"] = "off"
    process = launcher.start(sys.executable, script("orphans.py", ORPHAN_MAKER))
    launcher.wait_for_output("orphans made")
    me = psutil.Process(process.pid)
    wait_for(lambda: len(me.children(recursive=True)) == 1, "orphans reaped")
    process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 75


def test_children_that_the_launcher_had_before_are_not_the_commands(launcher: Launcher) -> None:
    # A shell that starts something in the background and then becomes the launcher.
    line = 'sleep 600 & echo $! > "$1"; shift; exec "$@"'
    other = launcher.directory / "other.pid"
    process = launcher.start("true", executable=None)
    process.wait(180)
    words = ["bash", "-c", line, "bash", str(other), *process.args]

    assert (
        subprocess.run(words, env=launcher.environment, cwd=launcher.directory, timeout=180, check=False).returncode
        == 0
    )
    pid = int(other.read_text())
    os.kill(pid, 0)
    os.kill(pid, signal.SIGKILL)


def test_python_does_not_hold_back_its_output_unless_the_user_wants_it_to(launcher: Launcher) -> None:
    program = "import os, sys; print(repr(os.environ['PYTHONUNBUFFERED']))"
    launcher.environment.pop("PYTHONUNBUFFERED", None)
    assert launcher.run(sys.executable, "-c", program).out == "'1'\n"
    launcher.environment["PYTHONUNBUFFERED"] = ""
    assert launcher.run(sys.executable, "-c", program).out == "''\n"


def test_the_command_learns_of_its_job_through_the_environment(launcher: Launcher) -> None:
    launcher.environment |= {"LASTGOOD_FRESH": "1", "LASTGOOD_EXPECT_STEP": "7", "LASTGOOD_ATTEMPT": "99"}
    program = "import os\nfor k in sorted(os.environ):\n    if k.startswith('LASTGOOD_'): print(k, os.environ[k])"
    ended = launcher.run("--time-limit", "1h", "--", sys.executable, "-c", program)
    told = dict(line.split(" ", 1) for line in ended.out.splitlines())
    assert told["LASTGOOD_JOB"] == str(launcher.job)
    assert told["LASTGOOD_ATTEMPT"] == "1"
    assert told["LASTGOOD_LAUNCHER_PID"] == str(launcher.processes[-1].pid)
    assert len(told["LASTGOOD_LAUNCH"]) == 16
    assert float(told["LASTGOOD_DEADLINE"]) > 0
    assert not {"LASTGOOD_FRESH", "LASTGOOD_EXPECT_STEP", "LASTGOOD_CHECKPOINT"} & told.keys()
    assert not os.path.exists(told["LASTGOOD_HEARTBEATS"])


def test_a_job_directory_that_may_not_be_written_is_77(launcher: Launcher, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    process = launcher.start("true", job=closed / "job", preexec_fn=without_root_powers)
    ended = launcher.end_of(process)
    assert ended.code == 77
    assert "Permission denied" in ended.err
    assert list(closed.iterdir()) == []


def test_a_file_in_place_of_the_job_directory_is_an_error_with_a_remedy(launcher: Launcher) -> None:
    launcher.job.write_text("not a directory")
    ended = launcher.run("true")
    assert ended.code == 74
    assert "choose a directory" in ended.err
