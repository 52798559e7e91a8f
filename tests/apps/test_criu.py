"""Any program, written down as a whole by CRIU: what has to be so for a restore, and real restores where CRIU works."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from lastgood.apps import criu, criu_images, criu_program
from lastgood.apps.criu_images import ImageState, cut_back, problem_of, prune, read_state
from lastgood.apps.transparent_machine import look
from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN, UsageError
from launch.conftest import LIMIT_S, Launcher, launcher, wait_for  # noqa: F401 - a fixture

COUNTER = """
import random, sys, time
random.seed(3)
with open("numbers.txt", "a") as file:
    for n in range(int(sys.argv[1])):
        file.write(f"{n} {random.random()!r}\\n")
        file.flush()
        print("step", n, flush=True)
        time.sleep(0.05)
"""
COUNT = 100


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "000000012"
    path.mkdir()
    (path / "pages-1.img").write_bytes(b"x" * 100)
    written = tmp_path / "results.txt"
    written.write_bytes(b"y" * 50)
    state = ImageState(12, 1234, ["solver"], {"pages-1.img": 100}, {str(written): 40})
    (path / criu_images.STATE).write_bytes(msgspec.json.encode(state))
    return path


def test_a_whole_image_has_no_problem(image: Path) -> None:
    assert problem_of(image, ["solver"]) == ""


def test_what_speaks_against_an_image_is_named(image: Path, tmp_path: Path) -> None:
    assert problem_of(image, ["solver", "--other"]) == "it is of another command"
    (image / "pages-1.img").write_bytes(b"x" * 99)
    assert problem_of(image, ["solver"]) == "pages-1.img has 99 bytes, not 100"
    (image / "pages-1.img").unlink()
    assert problem_of(image, ["solver"]) == "pages-1.img is missing"
    (image / criu_images.STATE).write_bytes(b"{")
    assert problem_of(image, ["solver"]).startswith(criu_images.STATE)
    (image / criu_images.STATE).unlink()
    assert problem_of(image, ["solver"]) == f"it has no {criu_images.STATE}"


def test_a_file_of_the_program_that_became_shorter_speaks_against_an_image(image: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    os.truncate(results, 39)
    assert problem_of(image, ["solver"]) == f"{results}, which the program writes, is shorter than it was then"
    results.unlink()
    assert problem_of(image, ["solver"]) == f"{results}, which the program writes, is gone"


def test_files_that_have_grown_are_cut_back_and_named(image: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.txt"
    assert cut_back(read_state(image)) == [f"{results} was cut back from 50 to 40 bytes: the rest is done again"]
    assert results.stat().st_size == 40
    assert cut_back(read_state(image)) == []


def test_the_newest_two_images_are_kept(image: Path, tmp_path: Path) -> None:
    for seconds in (3, 7, 20):
        shutil.copytree(image, tmp_path / criu_images.image_name(seconds))
    (tmp_path / "notes").mkdir()
    prune(tmp_path)
    assert [path.name for path in criu_images.image_paths(tmp_path)] == ["000000020", "000000012"]
    assert (tmp_path / "notes").is_dir()


def test_where_criu_cannot_work_nothing_is_started_and_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    here = look(["solver"])
    there = msgspec.structs.replace(here, tools={"criu": "/usr/sbin/criu"}, criu_check="vdso: unexpected bounds")
    monkeypatch.setattr(criu, "look", lambda command: there)
    with pytest.raises(UsageError, match="vdso: unexpected bounds"):
        criu.Criu(["solver"])


class Fails:
    """Raises what storage does that takes no more."""

    def __init__(self, *given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Command:
    """One that does nothing, and a clock that only waiting for it moves: it is killed at 4.5 s."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.at = 0.0

    @property
    def is_stopped(self) -> bool:
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def clock(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds
        if self.at >= 4.5:
            os.kill(self.process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


@pytest.fixture
def command() -> Iterator[Command]:
    command = Command()
    yield command
    command.process.kill()
    command.process.wait()


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> criu_program.Keeper:
    """Keeps the command, with a CRIU that stops it and writes nothing."""
    monkeypatch.chdir(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "criu").write_text("#!/bin/sh\nkill -STOP $3\n")
    (tools / "criu").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    Path(criu_images.DIRECTORY).mkdir()
    keeper = criu_program.Keeper(["sleep", "1000"], 3600.0, command.clock, command.sleep)
    keeper._pid = command.process.pid
    return keeper


@pytest.mark.parametrize("where", ["mkdir", "write_bytes", "rename"])
def test_storage_that_takes_no_image_is_said_and_harms_no_program(
    keeper: criu_program.Keeper,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    where: str,
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Path, where, Fails)
        assert not keeper.dump()
    assert "no image is written: " in (said := capfd.readouterr().err) and os.strerror(errno.ENOSPC) in said
    assert not command.is_stopped
    assert criu_images.image_paths(Path(criu_images.DIRECTORY)) == []
    assert keeper.dump()


def test_an_image_that_cannot_be_made_durable_does_not_count(
    keeper: criu_program.Keeper, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Fails)
    assert not keeper.dump() and not command.is_stopped


def test_older_images_that_cannot_be_deleted_are_said_and_the_new_one_counts(
    keeper: criu_program.Keeper,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(criu_program, "prune", Fails)
    assert keeper.dump() and not command.is_stopped
    assert "older images are not deleted: " in capfd.readouterr().err


def test_a_program_that_is_to_stop_and_cannot_be_saved_is_tried_again_after_some_seconds(
    keeper: criu_program.Keeper, tmp_path: Path
) -> None:
    (tmp_path / "tools" / "criu").write_text("#!/bin/sh\necho tried >> asked.txt\nexit 1\n")
    Path(criu_images.DIRECTORY, criu_images.STOP).touch()
    assert keeper.attend() == 128 + signal.SIGKILL
    assert (tmp_path / "asked.txt").read_text().splitlines() == ["tried"] * 3


def test_a_program_that_is_to_stop_is_saved_at_once_and_ended(keeper: criu_program.Keeper, command: Command) -> None:
    Path(criu_images.DIRECTORY, criu_images.STOP).touch()
    assert keeper.attend() == EXIT_SAVED_RUN_AGAIN
    assert command.at == 0.0


def test_a_request_that_cannot_be_written_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeper: criu_program.Keeper
) -> None:
    there = msgspec.structs.replace(
        look(["solver"]), tools={"criu": "/usr/sbin/criu"}, criu_check="ok", may_restore=True
    )
    monkeypatch.setattr(criu, "look", lambda command: there)
    adapter = criu.Criu(["solver"])
    monkeypatch.setattr(criu.durable, "write_shared_file", Fails)
    assert "criu-images/save cannot be written: " in adapter.ask_to_stop(signal.SIGUSR2).refusal
    stop = adapter.ask_to_stop(signal.SIGTERM)
    assert (stop.signal, stop.only_to) == (signal.SIGTERM, ("lastgood-criu",))


def test_told_to_end_it_ends_the_command_also_where_it_cannot_be_written_down(
    keeper: criu_program.Keeper, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.end(signal.SIGTERM, None)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "mkdir", Fails)
        assert keeper.attend() == 128 + signal.SIGTERM
    assert command.process.wait() == -signal.SIGKILL


@pytest.fixture
def kept(keeper: criu_program.Keeper) -> Iterator[tuple["subprocess.Popen[bytes]", psutil.Process]]:
    """The program that keeps a command, started as the launcher does it, and the command."""
    words = ["-m", "lastgood.apps.criu_program", "--every", "3600", "--", "sh", "-c", "echo ready; exec sleep 1000"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        (below,) = psutil.Process(program.pid).children()
        yield program, below
        for process in (program, below):
            with suppress(psutil.NoSuchProcess):
                process.kill()


Kept = tuple["subprocess.Popen[bytes]", psutil.Process]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_where_nobody_hears_it_any_more_a_signal_has_the_command_written_down_and_ended(
    kept: Kept, number: signal.Signals
) -> None:
    program, below = kept
    assert program.stdout is not None and program.stderr is not None
    program.stdout.close()
    program.stderr.close()
    with Path(criu_images.DIRECTORY, criu_images.STREAMS[0]).open("ab") as printed:
        printed.write(b"more\n")
    program.send_signal(number)
    program.wait(LIMIT_S)
    wait_for(lambda: not below.is_running() or below.status() == psutil.STATUS_ZOMBIE, "the end of the command")
    assert len(criu_images.image_paths(Path(criu_images.DIRECTORY))) == 1


def test_killed_itself_it_leaves_no_command_behind(kept: Kept) -> None:
    program, below = kept
    program.kill()
    wait_for(lambda: not below.is_running() or below.status() == psutil.STATUS_ZOMBIE, "the end of the command")


@pytest.fixture
def counter(launcher: Launcher) -> list[str]:  # noqa: F811
    """The words of a job under CRIU that writes random numbers."""
    machine = look(["python"])
    if machine.criu_check != "ok" or not machine.may_restore:
        pytest.skip(f"`criu check` does not pass on this machine: {machine.criu_check or 'criu is not installed'}")
    (launcher.directory / "counter.py").write_text(COUNTER)
    return ["--app", "criu", "--save-every", "700ms", "--", sys.executable, "counter.py", str(COUNT)]


def _expected() -> str:
    numbers = random.Random(3)
    return "".join(f"{n} {numbers.random()!r}\n" for n in range(COUNT))


def _newest(launcher: Launcher) -> Path:  # noqa: F811
    wait_for(lambda: criu_images.image_paths(launcher.directory / criu_images.DIRECTORY), "an image")
    return criu_images.image_paths(launcher.directory / criu_images.DIRECTORY)[0]


@pytest.mark.slow
def test_killed_it_goes_on_from_its_newest_image_to_the_same_numbers(launcher: Launcher, counter: list[str]) -> None:  # noqa: F811
    process = launcher.start(*counter)
    os.kill(read_state(_newest(launcher)).pid, signal.SIGKILL)
    assert launcher.end_of(process).code == 0
    assert launcher.outcomes() == ["killed", "finished"]
    assert launcher.event(2, "started")["how"] == "resumed"
    assert (launcher.directory / "numbers.txt").read_text() == _expected()


@pytest.mark.slow
def test_told_to_stop_it_is_written_down_and_goes_on_later(launcher: Launcher, counter: list[str]) -> None:  # noqa: F811
    process = launcher.start(*counter)
    _newest(launcher)
    process.send_signal(signal.SIGTERM)
    assert launcher.end_of(process).code == 75
    done = len((launcher.directory / "numbers.txt").read_text().splitlines())
    assert launcher.run(*counter).code == 0
    assert (launcher.directory / "numbers.txt").read_text() == _expected()
    assert 0 < done < COUNT


@pytest.mark.slow
def test_where_the_launcher_is_killed_the_program_is_written_down_and_does_not_run_on(
    launcher: Launcher,  # noqa: F811
    counter: list[str],
) -> None:
    process = launcher.start(*counter)
    first = _newest(launcher)
    process.kill()
    process.wait()
    wait_for(lambda: not launcher.survivors(), "the end of all that it has started")
    done = len((launcher.directory / "numbers.txt").read_text().splitlines())
    assert done < COUNT and _newest(launcher) > first
    assert launcher.run(*counter).code == 0
    assert launcher.event(2, "started")["how"] == "resumed"
    assert (launcher.directory / "numbers.txt").read_text() == _expected()


@pytest.mark.slow
def test_one_that_was_brought_back_does_not_outlive_what_keeps_it(launcher: Launcher, counter: list[str]) -> None:  # noqa: F811
    process = launcher.start(*counter)
    _newest(launcher)
    process.send_signal(signal.SIGTERM)
    launcher.end_of(process)
    process = launcher.start(*counter)
    pid = read_state(_newest(launcher)).pid
    wait_for(lambda: psutil.pid_exists(pid), "the program")
    below = psutil.Process(pid)
    keeps = wait_for(lambda: "lastgood.apps.criu_program" in below.parent().cmdline() and below.parent(), "its keeper")
    # The launcher, which would end it too, cannot.
    process.send_signal(signal.SIGSTOP)
    keeps.kill()
    wait_for(lambda: not below.is_running() or below.status() == psutil.STATUS_ZOMBIE, "the end of the program")
    process.send_signal(signal.SIGCONT)
    assert launcher.end_of(process).code == 0
    assert (launcher.directory / "numbers.txt").read_text() == _expected()


@pytest.mark.slow
def test_a_damaged_newest_image_is_put_aside_and_the_one_before_is_taken(
    launcher: Launcher,  # noqa: F811
    counter: list[str],
) -> None:
    process = launcher.start(*counter)
    directory = launcher.directory / criu_images.DIRECTORY
    wait_for(lambda: len(criu_images.image_paths(directory)) == 2, "two images")
    process.send_signal(signal.SIGTERM)
    launcher.end_of(process)
    newest, before = criu_images.image_paths(directory)
    with (newest / "pages-1.img").open("r+b") as file:
        file.truncate(4096)
    assert launcher.run(*counter).code == 0
    assert launcher.event(2, "started")["step"] == int(before.name)
    assert (directory / f"{newest.name}.attempt-2").is_dir()
    assert (launcher.directory / "numbers.txt").read_text() == _expected()


@pytest.mark.slow
def test_one_that_is_finished_is_not_started_again(launcher: Launcher, counter: list[str]) -> None:  # noqa: F811
    assert launcher.run(*counter[:-1], "20").code == 0
    assert launcher.run(*counter[:-1], "20").code == 0
    assert len((launcher.directory / "numbers.txt").read_text().splitlines()) == 20
