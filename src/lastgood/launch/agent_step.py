"""The step of an allocation in which the agents run: srun, and the pipes to and from it."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec

from lastgood.launch.agent_talk import Answer, Command, Lines, line_of

_LEAVE_S = 15.0

SRUN = (
    *("srun", "--overlap", "--ntasks-per-node=1", "--mem=0", "--gres=none", "--cpu-bind=none", "--mpi=none"),
    *("--kill-on-bad-exit=0", "--export=ALL", "--job-name=lastgood-agents"),
)
"""Not --unbuffered: srun then passes pieces of lines on. No number of CPUs: the keepers may use what the node has."""

_OPTIONS_OF_STEPS = (
    *("CPUS_PER_TASK", "CPU_BIND", "DISTRIBUTION", "EXACT", "EXCLUSIVE", "EXPORT_ENV", "GPUS", "GPU_BIND", "HINT"),
    *(
        "KILL_BAD_EXIT",
        "LABELIO",
        "MEM_",
        "MPI_TYPE",
        "NTASKS",
        "NPROCS",
        "PTY",
        "STD",
        "THREADS_PER_CORE",
        "TRES_BIND",
    ),
    *("TRES_PER_TASK", "UNBUFFEREDIO", "WAIT"),
)
"""What srun would take for options: they are meant for the command's step, not for ours. Beginnings of names."""

Start = Callable[[Sequence[str], Mapping[str, str]], "subprocess.Popen[bytes]"]


def start_agents(words: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """In a session of its own, and not ended with the launcher: the agents see its end, and have things to do then."""
    return subprocess.Popen(
        list(words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={name: value for name, value in environment.items() if not _is_option(name)},
        start_new_session=True,
    )


def _is_option(name: str) -> bool:
    return name.startswith("SLURM_") and name.removeprefix("SLURM_").startswith(_OPTIONS_OF_STEPS)


class AgentStep:
    """A running step. `is_over` says when it has ended; whoever is the launcher's child is reaped elsewhere, too."""

    def __init__(self, start: Start, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises OSError."""
        process = start(words, environment)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._to, self._out, self._err = process.stdin, process.stdout, process.stderr
        for stream in (self._to, self._out, self._err):
            os.set_blocking(stream.fileno(), False)
        self._lines = Lines()
        self._errors = b""
        self.is_over = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._out.fileno()

    @property
    def last_words(self) -> str:
        """The last line that srun, or an agent, has written as an error."""
        return self._errors.decode(errors="replace").strip().rpartition("\n")[2][-300:]

    def send(self, command: Command) -> None:
        if self.is_over:
            return
        try:
            data = line_of(command)
            # The pipe takes it at once, unless nobody has read for long.
            if os.write(self._to.fileno(), data) != len(data):
                raise BlockingIOError
        except OSError:
            self.end()

    def hear(self) -> list[Answer]:
        """What the agents have said by now."""
        found: list[Answer] = []
        while not self.is_over:
            self._hear_errors()
            try:
                data = os.read(self._out.fileno(), 64 * 1024)
            except BlockingIOError:
                break
            if not data:
                self._hear_errors()
                self.end()
            for line in self._lines.feed(data):
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    found.append(msgspec.json.decode(line, type=Answer))
        return found

    def _hear_errors(self) -> None:
        with suppress(BlockingIOError):
            self._errors = (self._errors + os.read(self._err.fileno(), 64 * 1024))[-4096:]

    def end(self) -> None:
        """It has ended, or shall."""
        if self.is_over:
            return
        self.is_over = True
        for stream in (self._to, self._out, self._err):
            with suppress(OSError):
                stream.close()
        with suppress(OSError):
            # srun may have left a process of its own.
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVE_S)
