"""Programs that are held in the middle of their work, until a test has done to them what it wants to do there.

The runs of these tests take a second or two. Whoever looks for the moment, and is not given a core meanwhile, finds them
at their end. So strace stops the program itself, at a system call that it makes there.
"""

import os
import shlex
import shutil
import signal
from contextlib import suppress

import psutil

from launch.conftest import Launcher, wait_for

SCRIPT = """\
#!/bin/sh
# Runs the program of this name; each start that computes takes the next hold, if there is one left.
case " $* " in *{word}*) ;; *) exec {program} "$@" ;; esac
# Of ranks the first one is held, and with it those that it talks to.
[ "${{OMPI_COMM_WORLD_RANK:-0}}" = 0 ] || exec {program} "$@"
for hold in {place}/hold-*; do
    number="${{hold##*-}}"
    if mv "$hold" "{place}/taken-$number" 2>/dev/null; then
        echo $$ > "{place}/pid-$number"
        # What is traced stays the child of whoever has started it: the tracer is not its parent.
        exec strace -DDD -qq -o "{place}/trace-$number" $(cat "{place}/taken-$number") {program} "$@"
    fi
done
exec {program} "$@"
"""
IS_HELD = "stopped by SIGSTOP"


class Holds:
    """Of one program, in its starts to come by a launcher."""

    def __init__(self, launcher: Launcher, program: str, word: str = "", *real: str) -> None:
        """`word`: on the command lines of those starts that compute. `real`: what the name stands for, where that is not
        the one in PATH."""
        self._launcher = launcher
        # Beside the directory that the program works in: what lies in there counts.
        self._place = launcher.directory.with_name(f"{launcher.directory.name}-held")
        self._place.mkdir(exist_ok=True)
        self._count = 0
        self.script = self._place / program
        in_path = shutil.which(program)
        words = real or ((in_path,) if in_path else ())
        assert words, program
        self.script.write_text(SCRIPT.format(word=shlex.quote(word), program=shlex.join(words), place=self._place))
        self.script.chmod(0o755)
        before = launcher.environment["PATH"]
        launcher.environment["PATH"] = f"{self._place}{os.pathsep}{before}"

    def add(self, call: str, occurrence: int, path: str = "", *, is_in_thread: bool = False) -> int:
        """The next start that has none is held when it has made a call so often; with `path`, of the calls that take it.
        `is_in_thread`: it is another thread than the first that makes them."""
        self._count += 1
        only = f"-P {path} " if path else "-f " if is_in_thread else ""
        made = self._place / "made"
        made.write_text(f"{only}-e trace={call} -e inject={call}:signal=SIGSTOP:when={occurrence}")
        made.rename(self._place / f"hold-{self._count:04d}")
        return self._count

    def wait(self, number: int) -> psutil.Process:
        """The program, once it is held."""
        trace = self._place / f"trace-{number:04d}"

        def is_held() -> bool:
            has_ended = self._launcher.processes[-1].poll() is not None
            found = trace.exists() and IS_HELD in trace.read_text()
            assert found or not has_ended, self._launcher.output(-1, "err")
            return found

        wait_for(is_held, "a program that is held")
        return psutil.Process(int((self._place / f"pid-{number:04d}").read_text()))

    def let_go(self, number: int) -> None:
        # The launcher, if it was told to end, may have ended it.
        with suppress(psutil.NoSuchProcess):
            self.wait(number).send_signal(signal.SIGCONT)

    def stop(self, number: int) -> None:
        """Tell the launcher to stop, and let the program go when it was told."""
        self.wait(number)
        self._launcher.processes[-1].send_signal(signal.SIGTERM)
        self._launcher.wait_for_output("asked the command to save and stop", "err")
        self.let_go(number)
