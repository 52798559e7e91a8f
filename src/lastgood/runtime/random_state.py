"""The random state of the process: Python's, and that of every framework in use."""

import random
from typing import Any

from lastgood.runtime.ports import Framework, Stateful


class RandomState:
    """All global generators of the process."""

    def __init__(self, frameworks: list[Framework]) -> None:
        self._frameworks = frameworks

    def capture(self) -> dict[str, Any]:
        return {"python": random.getstate(), "frameworks": {f.name: f.random_state() for f in self._frameworks}}

    def restore(self, tree: dict[str, Any]) -> None:
        random.setstate(tree["python"])
        for framework in self._frameworks:
            if framework.name in tree["frameworks"]:
                framework.set_random_state(tree["frameworks"][framework.name])


class Generators:
    """The generators that the loaders of an epoch draw their order from, by the part that reads the loader.

    A loader is first seen when it is read. Until then what was restored for it waits here, and is saved
    again as it is.
    """

    def __init__(self) -> None:
        self._seen: dict[int, list[tuple[object, Stateful]]] = {}
        self._waiting: dict[int, list[Any]] = {}
        self._put_back: list[object] = []

    def note(self, part: int, generators: list[tuple[object, Stateful]]) -> None:
        """These belong to the loader of `part`; what was restored for them is put into them, once."""
        self._seen[part] = generators
        states = self._waiting.pop(part, [])
        for (generator, entry), state in zip(generators, states, strict=False):
            # Two loaders may share one generator: the second must not put back what the first has used.
            if not any(generator is known for known in self._put_back):
                self._put_back.append(generator)
                entry.restore(state)

    def capture(self) -> list[Any]:
        now = {part: [entry.capture() for _, entry in generators] for part, generators in self._seen.items()}
        known = {**self._waiting, **now}
        return [known.get(part, []) for part in range(max(known, default=-1) + 1)]

    def restore(self, tree: list[Any]) -> None:
        self._waiting = dict(enumerate(tree))
