"""A scene for one fault: a real trial, without the schedule, measurements and verdict of a whole drill."""

import random
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lastgood.drill.fault import Call, Calm, Fault, Hooks, Saved, make_fault
from lastgood.trial.place import make_place
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import Sight, Trial


class PlainJournal:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def note(self, kind: str, **data: Any) -> None:
        self.lines.append((kind, data))


class PlainScene:
    """Implements `fault.Scene`, and keeps what was done in it."""

    def __init__(self, trial: Trial, directory: Path) -> None:
        self.trial = trial
        self.calm = Calm()
        self.hooks = Hooks()
        self.journal = PlainJournal()
        self.random = random.Random(1)
        self.directory = directory

    def look(self) -> Sight:
        return self.trial.look()

    def wait_until(self, condition: Callable[[Sight], bool], limit_s: float) -> Sight | None:
        return self.trial.wait_until(condition, limit_s)

    def checkpoints(self) -> list[Saved]:
        return []

    def step_of(self, saved: Saved) -> int | None:
        return saved.step

    def go_on(self, but: Collection[int] = ()) -> None:
        """Nothing stands still here."""

    def start_again(self, why: str) -> None:
        self.trial.start()


def program(directory: Path, text: str) -> Path:
    """A directory of a user with one program in it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "program.py").write_text(text)
    return directory


def target_of(directory: Path, *words: str, **more: Any) -> Target:
    return Target(
        command=(sys.executable, "program.py", *words),
        directory=directory,
        step_pattern=r"step (\d+)",
        limit_s=120,
        **more,
    )


@contextmanager
def scene_with(
    fault_name: str, options: dict[str, str], target: Target, way: Way, root: Path
) -> Iterator[tuple[Fault, PlainScene]]:
    """A fault that is prepared, in a scene whose trial is not started; healed and taken down afterwards."""
    fault = make_fault(fault_name, options)
    assert fault.missing(Call(target, way)) == ""
    with Trial(target, make_place(root, "trial", target), way) as trial:
        scene = PlainScene(trial, root)
        try:
            fault.prepare(scene)
            yield fault, scene
        finally:
            fault.heal(scene)
            trial.end()
            fault.take_down(scene)
