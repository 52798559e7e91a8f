"""The newest checkpoint is damaged on its storage while nothing of the job runs; then the job is started again.

It must fall back to one before, or refuse to start; what it must not do is take the damaged one.
"""

import os
import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from lastgood.core.errors import LastgoodError
from lastgood.core.layout import MANIFEST_FILE
from lastgood.drill.fault import Call, Consequence, Fault, Injected, NoVictimError, Options, Saved, Scene
from lastgood.trial.processes import end_all
from lastgood.trial.target import Way

_END_LIMIT_S = 10.0
_BLOCK_BYTES = 4096
_SETTLE_S = 30.0


class _Damage(Fault):
    consequence = Consequence.FALL_BACK

    def missing(self, call: Call) -> str:
        if call.way is not Way.LASTGOOD and not call.target.checkpoints:
            return "which files are checkpoints? say it with --checkpoints GLOB"
        return ""

    def inject(self, scene: Scene) -> Injected:
        found = _damageable(scene)
        if not found:
            raise NoVictimError("there was no checkpoint yet that could be damaged")
        _spare_the_users_own(found, scene)
        sight = scene.look()
        stopped_at = time.time()
        left = end_all(scene.trial.token)
        scene.wait_until(lambda sight: not sight.is_running, _END_LIMIT_S)
        # A save that was under way may have been committed meanwhile.
        found = _damageable(scene)
        if not found:
            raise NoVictimError("its only checkpoint was being replaced when it was stopped")
        victim = found[0]
        before = {path: _content(path) for path in self.files(victim, scene)}
        how = [self.damage(path, scene) for path in before]
        names = [str(path.relative_to(scene.trial.place.path)) for path in before]
        evidence: dict[str, Any] = {
            "step": sight.step,
            "saved_step": sight.saved_step,
            "checkpoint": victim.name,
            "checkpoint_step": scene.step_of(victim),
            "how": dict(zip(names, how, strict=True)),
            # Asked now: the job that is started again may rewrite them, or delete them.
            "is_other": any(_content(path) != content for path, content in before.items()),
            "would_not_die": left,
        }
        what = f"checkpoint {victim.name} damaged while nothing of the job ran: {'; '.join(how[:3])}"
        if len(how) > 3:
            what += f" and {len(how) - 3} more"
        scene.start_again("its newest checkpoint was damaged while it was stopped")
        paths = tuple(map(str, before))
        return Injected(stopped_at, what, paths=paths, damaged=(victim.name,), evidence=evidence)

    def took_effect(self, scene: Scene, injected: Injected) -> bool | None:
        """Other than it was, or gone."""
        return bool(injected.evidence["is_other"])

    def files(self, victim: Saved, scene: Scene) -> list[Path]:
        """Which files of the checkpoint are hit: the largest, unless a kind of damage has its own choice."""
        return [largest(victim.files)]

    @abstractmethod
    def damage(self, path: Path, scene: Scene) -> str:
        """Do it; what was done, for a person."""


class Truncate(_Damage):
    name = "truncate"
    options: ClassVar = {"keep": "share of the file that is left, in % (default: 50)"}

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._keep = options.count("keep", 50, most=99)

    def damage(self, path: Path, scene: Scene) -> str:
        size = path.stat().st_size
        left = min(size * self._keep // 100, max(size - 1, 0))
        os.truncate(path, left)
        return f"{path.name} cut from {size} to {left} bytes"


class FlipBit(_Damage):
    name = "flip-bit"
    options: ClassVar = {"at": "place in the file, in % of its size (default: random)"}

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        at = options.text("at", "")
        if at and not _is_share(at):
            raise options.wrong("at", at, "a number from 0 to 100")
        self._share = float(at) / 100 if at else None

    def damage(self, path: Path, scene: Scene) -> str:
        size = path.stat().st_size
        share = scene.random.random() if self._share is None else self._share
        at, bit = min(int(size * share), size - 1), scene.random.randrange(8)
        with path.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << bit]))
        return f"bit {bit} of byte {at} of {path.name} flipped"


class Zero(_Damage):
    """As a file system leaves a file whose size was written before its content when the power went."""

    name = "zero"

    def damage(self, path: Path, scene: Scene) -> str:
        size = path.stat().st_size
        begin = size // 2 // _BLOCK_BYTES * _BLOCK_BYTES
        with path.open("r+b") as file:
            file.seek(begin)
            file.write(bytes(size - begin))
        return f"{path.name} is zeros from byte {begin} on"


class HalfDelete(_Damage):
    name = "half-delete"

    def files(self, victim: Saved, scene: Scene) -> list[Path]:
        """What vouches for the others stays: a checkpoint without its manifest was never one."""
        own = [path for path in victim.files if path.name != MANIFEST_FILE]
        chosen = scene.random.sample(own, max(len(own) // 2, 1))
        return [path for path in own if path in chosen]

    def damage(self, path: Path, scene: Scene) -> str:
        path.unlink()
        return f"{path.name} deleted"


def largest(files: Sequence[Path]) -> Path:
    return max(files, key=_size)


def _damageable(scene: Scene) -> list[Saved]:
    return [saved for saved in scene.checkpoints() if any(_size(path) for path in saved.files)]


def _spare_the_users_own(found: Sequence[Saved], scene: Scene) -> None:
    """A command may write where it was told to by an absolute path, or through a link."""
    copy = scene.trial.place.path.resolve()
    for path in (path for saved in found for path in saved.files):
        if not path.resolve().is_relative_to(copy):
            raise LastgoodError(
                f"{path} lies outside of the drill's copy of your directory, and is left alone",
                remedy="have the command write below {run}",
            )


def _size(path: Path) -> int:
    """0 for one that the program has deleted meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _content(path: Path) -> bytes | None:
    """A digest of a file; None if it is gone."""
    import hashlib

    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except OSError:
        return None


def _is_share(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and 0 <= float(text) <= 100
