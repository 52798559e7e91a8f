"""A process that ends what is left of a trial when whoever runs it is killed, and cannot do that himself."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from lastgood.trial.processes import end_all


class Guard:
    """Watches over one trial, from now on until it is let go or its owner is no more."""

    def __init__(self, token: str) -> None:
        hears, self._end = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "lastgood.trial.guard", token],
                stdin=hears,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(hears)

    def let_go(self) -> None:
        """Its owner has ended the trial himself."""
        self._process.kill()
        self._process.wait()
        os.close(self._end)


def main(token: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Who ends the drill ends the trial, too, and lets us go.
        signal.signal(number, signal.SIG_IGN)
    # The kernel closes the other end whatever becomes of its owner.
    with suppress(OSError):
        sys.stdin.buffer.read()
    end_all(token)


if __name__ == "__main__":
    main(sys.argv[1])
