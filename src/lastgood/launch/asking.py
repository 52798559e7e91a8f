"""Asking another program a question, for a limited time."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from lastgood.core.signals import SIGKILL


def ask(command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Exit code, less than 0 after a signal, and all that was printed; None as the code where the limit was reached.

    Then whatever it has started is killed with it: a child that it leaves would hold its output, and us. Raises OSError if it
    cannot be started.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)
            printed, _ = process.communicate()
            return None, printed.decode("utf-8", "backslashreplace")
        except BaseException:
            # Ctrl-C does not reach a session of its own.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)
            raise
    return process.returncode, printed.decode("utf-8", "backslashreplace")
