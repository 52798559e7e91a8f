"""What a failed save does to the job."""

from collections.abc import Callable

from lastgood.core.errors import LastgoodError, UnprotectedError
from lastgood.core.units import duration
from lastgood.runtime.ports import Ranks
from lastgood.runtime.results import Failed, Settings


class Policy:
    """Knows since when the job has been without a newer checkpoint."""

    def __init__(self, ranks: Ranks, settings: Settings, clock: Callable[[], float]) -> None:
        self._ranks = ranks
        self._settings = settings
        self._clock = clock
        self._protected_since = clock()

    def note_saved(self) -> None:
        self._protected_since = self._clock()

    def accept(self, step: int, error: LastgoodError) -> Failed:
        """Carry on without the save of `step`. Every rank must call. Raises `error`, or UnprotectedError, where that is
        too risky."""
        if self._settings.on_error == "stop":
            raise error
        unprotected_s, limit_s = self._clock() - self._protected_since, self._settings.unprotected_limit_s
        # Clocks of ranks differ; all must come to the same verdict.
        if self._ranks.maximum([int(unprotected_s > limit_s)])[0]:
            raise UnprotectedError(
                f"no checkpoint was saved for {duration(unprotected_s)}; the limit is {duration(limit_s)}. "
                f"The last error: {error.what}",
                safe="earlier checkpoints are untouched",
                remedy=error.remedy,
            ) from error
        return Failed(step, error)
