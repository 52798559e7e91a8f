"""Whether the launcher of this job is still there."""

import os
import time
from collections.abc import Callable

from lastgood.runtime.environment import Surroundings
from lastgood.store.processes import birth_of

_LOOK_S = 1.0


class LauncherWatch:
    """Looks at the launcher's process, at most once a second.

    Only a launcher that runs here is watched. On another node of the job, or in a container with processes
    of its own, its number means nothing: the node's name tells, and the launcher's heartbeat directory. (On other nodes
    the launcher's agent asks the ranks to stop.)
    """

    def __init__(self, surroundings: Surroundings, clock: Callable[[], float] = time.monotonic) -> None:
        heartbeats = surroundings.heartbeats
        is_here = surroundings.node == surroundings.launcher_node and (heartbeats is None or os.path.isdir(heartbeats))
        self._pid = surroundings.launcher_pid if is_here else None
        self._clock = clock
        self._birth = None if self._pid is None else birth_of(self._pid)
        self._looked_at = float("-inf")
        self._is_gone = False

    def is_gone(self) -> bool:
        if self._pid is None or self._is_gone:
            return self._is_gone
        now = self._clock()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._is_gone = self._birth is None or birth_of(self._pid) != self._birth
        return self._is_gone
