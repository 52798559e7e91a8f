"""What this process has open, for tests that see to it that nothing is left open."""

import contextlib
import os


def open_descriptors() -> set[str]:
    """Numbers with what they lead to. What was left open is `open_descriptors() - before`: compared in no other way,
    because what earlier tests have left as garbage may be closed meanwhile, and its numbers be used again."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        # The one of this directory is gone by now.
        with contextlib.suppress(FileNotFoundError):
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return found
