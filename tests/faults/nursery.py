"""Starts scenarios in fresh processes within milliseconds, each held before its first system call.

The nursery is one process that has everything imported; it forks a child per scenario. A child waits
for a signal before it does anything, so that a tracer can attach first and sees the scenario alone,
without Python's start.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType

RELEASE = signal.SIGUSR1
UNEXPECTED = 99
"""Exit code of a child whose scenario raised something that is no LastgoodError."""
_PR_SET_PTRACER = 0x59616D61


class Nursery:
    """Forks scenarios. Use as a context manager; leaving it ends the nursery and all of its children."""

    def __init__(self, errors: Path, *, has_training: bool = False) -> None:
        """With `has_training` also NumPy is there, and `training.train`."""
        self._errors = errors
        self._extra = ["training"] if has_training else []
        self._children: set[int] = set()

    def __enter__(self) -> "Nursery":
        tests = Path(__file__).parent.parent
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "faults.nursery", *self._extra],
                cwd=tests,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(100)
        self._process.stdout.close()

    def _ask(self, **request: object) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the nursery ended: {self._errors.read_text()}"
        return int(answer)

    def prepare(self, scenario: str, **arguments: object) -> int:
        """Fork a child that will run the scenario once it is released; its process id."""
        pid = self._ask(scenario=scenario, arguments=arguments)
        self._children.add(pid)
        return pid

    def release(self, pid: int) -> None:
        os.kill(pid, RELEASE)

    def has(self, pid: int) -> bool:
        """Whether that child has been prepared, and was not waited for yet."""
        return pid in self._children

    def wait(self, pid: int) -> int:
        """Exit code as `subprocess` has it: that of the error's class, or minus the signal."""
        code = os.waitstatus_to_exitcode(self._ask(wait=pid))
        self._children.discard(pid)
        assert code != UNEXPECTED, self._errors.read_text()
        return code

    def errors(self) -> str:
        """The errors of all children so far."""
        return self._errors.read_text()

    def run(self, scenario: str, **arguments: object) -> int:
        pid = self.prepare(scenario, **arguments)
        self.release(pid)
        return self.wait(pid)


def _serve(has_training: bool) -> None:
    from faults import states
    from faults.scenarios import SCENARIOS

    if has_training:
        from faults.training import practise, train

        SCENARIOS |= {"train": train, "practise": practise}

    states.use_small_blocks()
    signal.pthread_sigmask(signal.SIG_BLOCK, {RELEASE})
    # Where only a parent may trace (Yama), allow our sibling, the tracer, too.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1 & (2**64 - 1)), 0, 0, 0)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitpid(request["wait"], 0)[1]
        else:
            answer = os.fork()
            if answer == 0:
                _live(SCENARIOS[request["scenario"]], request["arguments"])
        print(answer, flush=True)


def _live(scenario: object, arguments: dict[str, object]) -> None:
    from lastgood.core.errors import LastgoodError

    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1 & (2**64 - 1)), 0, 0, 0)
    signal.sigwait({RELEASE})
    code = 0
    try:
        scenario(**arguments)  # type: ignore[operator]
    except LastgoodError as error:
        code = error.exit_code
        traceback.print_exc()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - reported, and told apart by its code
        traceback.print_exc()
        sys.stderr.flush()
        code = UNEXPECTED
    os._exit(code)


if __name__ == "__main__":
    _serve(has_training="training" in sys.argv)
