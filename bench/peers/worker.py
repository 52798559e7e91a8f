"""One contender in a process of its own: does one thing, measures it by its own clock, and writes JSON.

python -m peers.worker CONTENDER loop|idle|store|load --kind arrays --directory D --output FILE ...
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from peers import processes
from peers.contender import Contender
from peers.registry import NAMES, contender

KEPT = 2
"""Checkpoints that stay beside a new one."""


def main() -> None:
    arguments = _parse()
    os.environ.setdefault("OMP_NUM_THREADS", str(arguments.threads))
    chosen = contender(arguments.contender)()
    state = _made(chosen, arguments)
    found = {"loop": _loop, "idle": _idle, "store": _store, "load": _load}[arguments.mode](chosen, state, arguments)
    found["bytes"] = state.nbytes
    arguments.output.write_text(json.dumps(found))


def _made(chosen: Contender, arguments: argparse.Namespace) -> Any:
    import torch

    torch.set_num_threads(arguments.threads)
    return chosen.make_state(arguments.kind, arguments.scale, arguments.seed)


def _loop(chosen: Contender, state: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """A training loop: when each step began, and how long the calls kept it.

    With `--settle`, the fifth step after each save waits until it is in storage, so that saves do not meet.
    """
    for _ in range(2):
        state.compute()
        state.update()
    ready = time.monotonic()
    chosen.begin(state, arguments.directory, arguments.every)
    tops: list[float] = []
    places: list[Path] = []
    ended = 0.0
    for step in chosen.steps(arguments.steps):
        tops.append(time.monotonic())
        if step == 2:
            # A job runs longer than this before its first save; what is made ready in the background can be.
            time.sleep(arguments.pause)
        if arguments.settle and step > arguments.every and step % arguments.every == 4:
            places.append(chosen.settle())
            if len(places) > KEPT:
                chosen.forget(places[-1 - KEPT])
        state.compute()
        chosen.before_update()
        state.update()
        ended = time.monotonic()
    # Not now: what a contender does when the loop is over is no step.
    tops.append(ended)
    found = {"ready": ready, "tops": tops, "call_s": chosen.call_s}
    chosen.end()
    return found


def _idle(chosen: Contender, state: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Saves one after another while nothing else is done: from the end of the step until each is durable, the
    bytes that were written meanwhile, and those that are there."""
    chosen.begin(state, arguments.directory, 1)
    durable_s, written, kept = [], [], []
    places: list[Path] = []
    ended, before = 0.0, 0
    for step in chosen.steps(arguments.steps):
        if step == 1:
            time.sleep(arguments.pause)
        if step > 1:
            place = chosen.settle()
            durable_s.append(time.monotonic() - ended)
            written.append(processes.written_bytes(arguments.token) - before)
            kept.append(_size(place))
            places.append(place)
            if len(places) > KEPT:
                chosen.forget(places[-1 - KEPT])
        chosen.before_update()
        state.update()
        before = processes.written_bytes(arguments.token)
        ended = time.monotonic()
    chosen.settle()
    chosen.end()
    return {"durable_s": durable_s, "written": written, "kept": kept}


def _store(chosen: Contender, state: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """One checkpoint, to be loaded by others."""
    chosen.begin(state, arguments.directory, 1)
    for _ in chosen.steps(1):
        pass
    place = chosen.settle()
    chosen.end()
    return {"place": str(place), "digest": state.digest()}


def _load(chosen: Contender, state: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Load into arrays that are there and hold other values, with nothing of it in the page cache."""
    chosen.begin_load(state)
    cached = _drop_from_cache(arguments.place)
    began = time.monotonic()
    chosen.load(arguments.place)
    took_s = time.monotonic() - began
    return {"load_s": took_s, "cached_before": cached, "digest": state.digest()}


def _drop_from_cache(place: Path) -> float:
    """Take the files of a checkpoint out of the page cache; the share of it that stays."""
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    left = total = 0
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            left += processes.cached_bytes(fd)
            total += os.fstat(fd).st_size
        finally:
            os.close(fd)
    return left / max(1, total)


def _size(place: Path) -> int:
    files = [place] if place.is_file() else place.rglob("*")
    return sum(path.stat().st_size for path in files if path.is_file())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contender", choices=NAMES)
    parser.add_argument("mode", choices=("loop", "idle", "store", "load"))
    parser.add_argument("--kind", required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--settle", action="store_true")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before the first save")
    parser.add_argument("--place", type=Path)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--token", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
