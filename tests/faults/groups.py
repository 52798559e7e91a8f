"""A cgroup with a memory limit, of whichever version this machine has."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lastgood.drill import cgroups
from lastgood.drill.cgroups import MemoryGroup


def is_available() -> bool:
    return not cgroups.missing()


@contextmanager
def limited() -> Iterator[MemoryGroup]:
    """A group below this process's, removed on leaving when all of its processes have ended."""
    group = cgroups.make_group(f"lastgood-test-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        yield group
    finally:
        group.remove()
