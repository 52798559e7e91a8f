"""The checkpoint that a command is ended at which cannot be asked to stop."""

from lastgood.launch.ports import LastGood

_LOOKS = 6
"""Half a second lies between two. Counted rather than timed: what freezes the command freezes its clock, too."""


class AwaitedSave:
    """The first that is newer than the one before, and is written to its end."""

    def __init__(self, before: LastGood | None) -> None:
        self._before = before
        self._seen: LastGood | None = None
        self._unchanged = 0

    def is_there(self, good: LastGood | None) -> bool:
        """Asked at each look, with the newest that there is. Where nothing in it tells that it has ended, it has to stay as
        it is for some looks more."""
        self._unchanged = self._unchanged + 1 if good == self._seen else 0
        self._seen = good
        if good is None or not good.is_newer_than(self._before):
            return False
        return good.tells_its_end or self._unchanged >= _LOOKS
