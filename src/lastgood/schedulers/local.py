"""No scheduler, or one that we do not talk to: the launcher retries in place and knows the time limit
from its own option or from the environment."""

from collections.abc import Mapping, Sequence
from typing import Any

from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN
from lastgood.core.layout import Env
from lastgood.launch.ports import Left

_RESTART_COUNTS = ("SLURM_RESTART_COUNT",)


class LocalScheduler:
    """What the environment says. `time_limit_s` counts from `started` (seconds since 1970)."""

    name = "local"

    def __init__(self, environment: Mapping[str, str], *, time_limit_s: float | None, started: float) -> None:
        self._environment = environment
        self._own = None if time_limit_s is None else started + time_limit_s

    def deadline(self) -> float | None:
        """The earliest end that is known."""
        known = [self._own, self._number(Env.DEADLINE), self._number("SLURM_JOB_END_TIME")]
        return min((end for end in known if end is not None), default=None)

    def restart_counts(self) -> dict[str, int]:
        found = {name: self._number(name) for name in _RESTART_COUNTS}
        return {name: int(count) for name, count in found.items() if count is not None and count > 0}

    def may_move(self) -> bool:
        """True if the next attempt may run on another node."""
        return False

    def window_s(self) -> float | None:
        return None

    def allocation(self) -> dict[str, Any]:
        return {}

    def introduction(self, write_s: float | None) -> list[str]:
        return []

    def before_attempt(self) -> None:
        """Nothing above would start the job again."""

    def interruption(self) -> str:
        return ""

    def hand_back(self, *, is_unasked: bool) -> Left:
        return Left(EXIT_SAVED_RUN_AGAIN)

    def may_avoid(self) -> int:
        return 0

    def avoid(self, nodes: Sequence[str]) -> Left | None:
        return None

    def end(self, exit_code: int) -> Left:
        return Left(exit_code)

    def was_cancelled(self, job_id: str) -> bool:
        return False

    def _number(self, name: str) -> float | None:
        try:
            number = float(self._environment.get(name, ""))
        except ValueError:
            return None
        # inf and nan are numbers to float(), and no time.
        return number if 0 <= number < 1e12 else None
