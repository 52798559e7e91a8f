"""Damage to a checkpoint: that it took effect is known from the file itself, and a user's own files are left alone."""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastgood.core.errors import LastgoodError
from lastgood.drill.fault import Fault, Injected, Saved, Scene, make_fault
from lastgood.trial.place import Place
from lastgood.trial.processes import own_token


class Stopped:
    """A job of which nothing runs, with one checkpoint. What it does when it is started again: it deletes that."""

    def __init__(self, place: Place, file: Path) -> None:
        self.trial = SimpleNamespace(token=own_token(), place=place)
        self.random = SimpleNamespace(random=lambda: 0.5, randrange=lambda n: 0)
        self.file = file

    def look(self) -> Any:
        return SimpleNamespace(step=None, saved_step=None)

    def wait_until(self, condition: object, limit_s: float) -> None:
        """It has ended."""

    def checkpoints(self) -> list[Saved]:
        return [Saved(self.file.name, 10, 0.0, (self.file,))]

    def step_of(self, saved: Saved) -> int | None:
        return saved.step

    def go_on(self, but: Collection[int] = ()) -> None:
        """Nothing stands still."""

    def start_again(self, why: str) -> None:
        self.file.unlink()


def damage(name: str, scene: Stopped) -> tuple[Fault, Injected]:
    fault = make_fault(name, {})
    assert isinstance(fault, Fault)
    return fault, fault.inject(cast("Scene", scene))


@pytest.mark.parametrize(("end", "has_effect"), [(bytes(8192), False), (bytes(8191) + b"x", True)])
def test_damage_that_changed_nothing_has_no_effect_whatever_the_next_start_does_to_the_file(
    tmp_path: Path, end: bytes, has_effect: bool
) -> None:
    place = Place(tmp_path, "drill")
    place.path.mkdir()
    (place.path / "state-10").write_bytes(b"x" * 8192 + end)
    scene = Stopped(place, place.path / "state-10")
    fault, injected = damage("zero", scene)
    assert not scene.file.exists()
    assert fault.took_effect(cast("Scene", scene), injected) is has_effect


def test_a_checkpoint_outside_of_the_copy_is_not_damaged(tmp_path: Path) -> None:
    place, own = Place(tmp_path, "drill"), tmp_path / "own"
    own.mkdir()
    place.path.mkdir()
    (own / "state-10").write_text("precious")
    (place.path / "out").symlink_to(own)
    with pytest.raises(LastgoodError, match="outside of the drill's copy"):
        damage("flip-bit", Stopped(place, place.path / "out" / "state-10"))
    assert (own / "state-10").read_text() == "precious"
