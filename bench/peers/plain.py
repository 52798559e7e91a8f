"""The loop alone, which all others are compared with."""

from pathlib import Path

from peers.contender import Contender


class Plain(Contender):
    title = "no saves"

    def save(self, step: int) -> None:
        pass

    def settle(self) -> Path:
        return self.directory

    def forget(self, place: Path) -> None:
        pass
