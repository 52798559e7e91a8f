"""Starts programs in fresh processes within milliseconds, with torch imported, for tests that kill them.

One process has everything imported and forks a child per program. Nothing in it ever computes, because
autograd does not work in a child of a process that has used it.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT_S = 180.0
"""No program takes longer; none comes near it."""


class Zygote:
    """`start` and `wait` for programs: functions by the name "module:function", with JSON arguments."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._count = 0
        self._living: set[int] = set()
        self._outputs: dict[int, Path] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runtime.zygote"],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def close(self) -> None:
        for pid in self._living:
            os.kill(pid, signal.SIGKILL)
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(LIMIT_S)
        self._process.stdout.close()

    def _ask(self, **request: Any) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the zygote has ended"
        return int(answer)

    def start(self, program: str, environment: dict[str, str] | None = None, **arguments: Any) -> int:
        self._count += 1
        output = self.directory / f"output-{self._count}.txt"
        output.touch()
        state = os.environ["LASTGOOD_STATE_DIR"]
        pid = self._ask(
            program=program,
            arguments=arguments,
            output=str(output),
            environment={
                "LASTGOOD_STATE_DIR": state,
                "LASTGOOD_KEEPER": os.environ.get("LASTGOOD_KEEPER", "on"),
                **(environment or {}),
            },
        )
        self._living.add(pid)
        self._outputs[pid] = output
        return pid

    def output(self, pid: int) -> str:
        return self._outputs[pid].read_text()

    def wait(self, pid: int, limit_s: float = LIMIT_S) -> int:
        """Exit code, or minus the signal that ended it. Kills and fails one that takes too long."""
        code = self._ask(wait=pid, limit_s=limit_s)
        self._living.discard(pid)
        assert code != TOO_LONG, f"did not end within {limit_s} s:\n{self.output(pid)}"
        return code

    def run(self, program: str, **arguments: Any) -> int:
        return self.wait(self.start(program, **arguments))

    def ranks(
        self, program: str, world_size: int = 2, environment: dict[str, str] | None = None, **arguments: Any
    ) -> list[int]:
        """One process per rank, which find each other through a file; their ids."""
        self._count += 1
        store = str(self.directory / f"store-{self._count}")
        return [
            self.start(
                program,
                environment={"RANK": str(rank), "WORLD_SIZE": str(world_size), "STORE": store, **(environment or {})},
                **arguments,
            )
            for rank in range(world_size)
        ]

    def wait_for_output(self, pid: int, text: str) -> None:
        end = time.monotonic() + LIMIT_S
        while text not in self.output(pid):
            assert time.monotonic() < end, f"{text!r} never came:\n{self.output(pid)}"
            time.sleep(0.005)


TOO_LONG = 1000


@contextmanager
def zygote(directory: Path) -> Iterator[Zygote]:
    made = Zygote(directory)
    try:
        yield made
    finally:
        made.close()


def _serve() -> None:
    import torch

    torch.set_num_threads(1)
    # Imported by the first optimizer otherwise, in every child anew, which takes most of its time.
    for module in ("torch._dynamo", "lastgood.runtime.run", "runtime.training"):
        importlib.import_module(module)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = _reap(request["wait"], request["limit_s"])
        else:
            answer = os.fork()
            if answer == 0:
                _live(request)
        print(answer, flush=True)


def _reap(pid: int, limit_s: float) -> int:
    end = time.monotonic() + limit_s
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return TOO_LONG
        time.sleep(0.005)


def _live(request: dict[str, Any]) -> None:
    os.setpgid(0, 0)
    fd = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(fd, number)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.environ.update(request["environment"])
    module, _, name = request["program"].partition(":")
    code = 1
    try:
        code = _code_of(getattr(importlib.import_module(module), name), request["arguments"])
    finally:
        # Whatever happens: a child must never go on as a second zygote.
        os._exit(code)


def _code_of(program: Any, arguments: dict[str, Any]) -> int:
    """The exit code that the interpreter would end with, exception hook included."""
    import atexit

    code = 0
    try:
        try:
            program(**arguments)
        except SystemExit:
            raise
        except BaseException:  # noqa: BLE001 - as the interpreter does
            sys.excepthook(*sys.exc_info())
            code = 1
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return code


if __name__ == "__main__":
    _serve()
