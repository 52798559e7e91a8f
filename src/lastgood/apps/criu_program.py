"""Runs a command for `lastgood run --app criu`: has CRIU write it down now and then, or brings it back from what was written.

    python -m lastgood.apps.criu_program --every SECONDS [--restore IMAGE] -- COMMAND

It is a program of its own because the command must be the child of somebody who stays, and CRIU makes what it restores
the child of whoever runs it.
"""

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from lastgood.apps.criu_images import (
    DIRECTORY,
    FINISHED,
    KEEPER,
    SAVE,
    STATE,
    STOP,
    STREAMS,
    ImageState,
    cut_back,
    image_name,
    image_paths,
    open_for_writing,
    prune,
    read_state,
)
from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN
from lastgood.core.signals import SIGINT, SIGKILL, SIGTERM
from lastgood.launch.asking import ask
from lastgood.store import durable

LOOK_S = 0.05
DUMP_LIMIT_S = 3600.0
"""Of an image as large as a node's memory on slow storage; the program stands still meanwhile."""
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_SIGCONT = 18
_TRIES = 3
_AGAIN_S = 2.0
"""After a try that failed: the program stands still in each."""


class Keeper:
    """A command, and the images of it."""

    def __init__(
        self,
        command: list[str],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._command = command
        self._every_s = every_s
        self._clock = clock
        self._sleep = sleep
        self._directory = Path(DIRECTORY)
        self._pid = 0
        self._base_s = 0
        self._began = clock()
        self._read = dict.fromkeys(STREAMS, 0)
        self._is_ending = False

    def end(self, *_: object) -> None:
        """The kernel says that the launcher has died, or somebody that we are to end: then the command may not run on, because
        what we hold is all that keeps others from starting it once more."""
        self._is_ending = True

    def start(self) -> None:
        us = os.getpid()
        libc = ctypes.CDLL(None)

        def before_exec() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
            if os.getppid() != us:
                os._exit(128 + SIGKILL)

        with (
            (self._directory / STREAMS[0]).open("wb") as out,
            (self._directory / STREAMS[1]).open("wb") as err,
        ):
            # No terminal, no pipe, a session of its own: CRIU can bring back nothing that leads outside.
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=before_exec,  # noqa: PLW1509
            )
        self._pid = process.pid

    def restore(self, image: Path) -> bool:
        """False, with what CRIU said, if it cannot be brought back."""
        state = read_state(image)
        for line in cut_back(state):
            say(line)
        work = Path(DIRECTORY, "restore")
        work.mkdir(exist_ok=True)
        command = [_criu(), "restore", "-D", str(image), "-W", str(work.resolve()), "-o", "log.txt", "-v1"]
        for _ in range(_TRIES):
            code, said = ask([*command, "--restore-detached", "--restore-sibling", "--file-locks"], DUMP_LIMIT_S)
            if code == 0:
                self._pid = state.pid
                self._base_s = state.seconds
                self._read = {name: state.files.get(os.path.abspath(self._directory / name), 0) for name in STREAMS}
                return True
            # Its process number may be that of another one, which ends.
            self._sleep(1.0)
        say(f"criu restore of {image} ended with {code}: {_last_error(work / 'log.txt') or said.strip()}")
        return False

    def attend(self) -> int:
        """Until the command ends, or is to stop; the exit code for us."""
        next_at = self._clock() + self._every_s
        again_at = self._clock()
        while True:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            self._relay()
            if ended:
                return self._finish(os.waitstatus_to_exitcode(status))
            is_ending = self._is_ending
            is_stop = is_ending or (self._directory / STOP).exists()
            is_asked = is_stop or (self._directory / SAVE).exists()
            now = self._clock()
            if now >= next_at or (is_asked and now >= again_at):
                is_saved = self.dump()
                if is_stop and (is_saved or is_ending):
                    self._kill()
                    return EXIT_SAVED_RUN_AGAIN if is_saved else 128 + SIGTERM
                now = self._clock()
                next_at = now + self._every_s
                again_at = now if is_saved else now + _AGAIN_S
            self._sleep(LOOK_S)

    def dump(self) -> bool:
        """Have it written down, and let it go on. False, with the reason said, if that did not work: it goes on then, too."""
        try:
            durable.delete_file(self._directory / SAVE)
            if not self._write_image():
                return False
        except OSError as error:
            say(f"no image is written: {error.strerror or error}")
            return False
        try:
            prune(self._directory)
        except OSError as error:
            say(f"older images are not deleted: {error.strerror or error}")
        return True

    def _write_image(self) -> bool:
        """False, with what CRIU said, if it could not. Raises OSError."""
        newest = image_paths(self._directory)[:1]
        seconds = self._base_s + int(self._clock() - self._began)
        seconds = max([seconds, *(int(path.name) + 1 for path in newest)])
        with durable.NewDirectory(self._directory / image_name(seconds), os.urandom(4).hex()) as new:
            try:
                command = [_criu(), "dump", "-t", str(self._pid), "-D", str(new.staging.resolve()), "-o", "dump.log"]
                code, said = ask([*command, "-v1", "--leave-stopped", "--file-locks"], DUMP_LIMIT_S)
                files = open_for_writing(self._tree())
            finally:
                self._continue()
            if code != 0:
                say(f"criu dump ended with {code}: {_last_error(new.staging / 'dump.log') or said.strip()}")
                return False
            images = {entry.name: entry.stat().st_size for entry in os.scandir(new.staging)}
            state = ImageState(seconds, self._pid, self._command, images, files)
            (new.staging / STATE).write_bytes(msgspec.json.encode(state))
            new.publish()
        return True

    def _finish(self, code: int) -> int:
        if code == 0:
            durable.write_file(self._directory / FINISHED, msgspec.json.encode({"exit_code": 0}))
        return code if code >= 0 else 128 - code

    def _tree(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            root = psutil.Process(self._pid)
            return [root, *root.children(recursive=True)]
        return []

    def _continue(self) -> None:
        for process in self._tree():
            with suppress(psutil.Error):
                process.send_signal(_SIGCONT)

    def _kill(self) -> None:
        for process in self._tree():
            with suppress(psutil.Error):
                process.send_signal(SIGKILL)

    def _relay(self) -> None:
        """Pass on what the command has printed since the last look."""
        for name, stream in zip(STREAMS, (sys.stdout, sys.stderr), strict=True):
            # Where the launcher is gone nobody hears it.
            with suppress(FileNotFoundError, BrokenPipeError), (self._directory / name).open("rb") as file:
                file.seek(self._read[name])
                data = file.read()
                if data:
                    self._read[name] += len(data)
                    stream.buffer.write(data)
                    stream.flush()


def say(text: str) -> None:
    with suppress(BrokenPipeError):
        sys.stderr.write(f"criu: {text}\n")
        sys.stderr.flush()


def _criu() -> str:
    return shutil.which("criu") or "/usr/sbin/criu"


def _last_error(log: Path) -> str:
    with suppress(OSError):
        lines = [line for line in log.read_text(errors="replace").splitlines() if "Error" in line]
        return lines[0].strip() if lines else ""
    return ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=float, required=True)
    parser.add_argument("--restore", type=Path)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, KEEPER.encode(), 0, 0, 0)
    Path(DIRECTORY).mkdir(exist_ok=True)
    keeper = Keeper(given.command, given.every)
    for number in (SIGTERM, SIGINT):
        signal.signal(number, keeper.end)
    if given.restore is None:
        keeper.start()
    elif not keeper.restore(given.restore):
        return 1
    return keeper.attend()


if __name__ == "__main__":
    raise SystemExit(main())
