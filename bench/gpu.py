"""What saves cost a training loop on one GPU: time that the loop stands still, copy rate, step time, restore.

    python bench/gpu.py [--gigabytes 4] [--steps 40] [--rounds 5] [--directory /tmp] [--device cuda:0]

Runs in a few minutes on one device, in one process. The loop waits for the device after every step, so that its
times are the device's, too. Numbers are medians with the least and the most. Raw numbers go to
bench/results/gpu.json. `--device cpu` tries the script where there is no GPU; its figures say nothing about one.
"""

import argparse
import ctypes
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import measures
import table
import torch

import lastgood
from lastgood.frameworks import torch_copies
from lastgood.frameworks.torch_adapter import FRAMEWORK
from lastgood.keeper.arena import Arena

EXTENT = 4096
SAVE_EVERY = 10
MODES: dict[str, dict[str, Any] | None] = {
    "no saves": None,
    "copied at once": {"overlap": False},
    "copied beside the next step": {"overlap": True},
}


class Training:
    """Square layers with Adam: parameters and two moments for each, all of them on the device."""

    def __init__(self, gigabytes: float, device: torch.device) -> None:
        extent = EXTENT if device.type == "cuda" else 512
        count = max(1, round(gigabytes * 1e9 / (3 * 4 * extent**2)))
        torch.manual_seed(1)
        layers = [torch.nn.Linear(extent, extent, bias=False) for _ in range(count)]
        self.device = device
        self.model = torch.nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-5)
        self._batch = torch.randn(8192 if device.type == "cuda" else 32, extent, device=device)
        # Moments exist, and kernels are loaded, from here on.
        for _ in range(3):
            self.step()

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self._batch).square().mean().backward()
        self.optimizer.step()
        synchronize(self.device)

    def state(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer}

    @property
    def nbytes(self) -> int:
        moments = [value for one in self.optimizer.state.values() for value in one.values()]
        return sum(tensor.nbytes for tensor in (*self.model.parameters(), *moments))


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(call: Callable[[], object], device: torch.device) -> float:
    synchronize(device)
    began = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - began


@contextmanager
def job(directory: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="gpu-", dir=directory))
    try:
        yield place / "job"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def copy_rates(size: int, rounds: int, device: torch.device) -> dict[str, list[float]]:
    """GB/s from the device into pinned memory, into pageable memory, and as a save does it into an arena."""
    source = torch.ones(size // 4, device=device)
    pinned, pageable = torch.empty_like(source, device="cpu").pin_memory(), torch.ones(size // 4)
    arena = Arena(source.nbytes)
    arena.touch_in_background()
    arena.await_touch()
    copies = torch_copies.device_copies()
    leaf = FRAMEWORK.to_leaf(source)
    assert copies is not None
    assert leaf is not None
    if problem := copies.pin(arena.address, arena.capacity):
        print(f"the arena could not be pinned: {problem}", file=sys.stderr)
    calls: dict[str, Callable[[], object]] = {
        "pinned memory (the limit)": lambda: pinned.copy_(source, non_blocking=True),
        "pageable memory": lambda: pageable.copy_(source),
        "an arena, as a save does": lambda: copies.start([(leaf, arena.address)], []).wait(),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            found[name].append(source.nbytes / timed(call, device) / 1e9)
    same = (ctypes.c_ubyte * 4096).from_address(arena.address)
    assert bytes(same) == bytes(pinned[:1024].view(torch.uint8).numpy()), "the arena does not hold what was copied"
    if not problem:
        copies.unpin(arena.address)
    arena.close()
    return {name: rates[1:] for name, rates in found.items()}


def loop(training: Training, place: Path, mode: str, every: int, steps: int, pause_s: float) -> dict[str, Any]:
    """When each step began; a save is due after every `every` steps."""
    settings, tops = MODES[mode], []
    if settings is None:
        for _ in range(steps):
            tops.append(time.perf_counter())
            training.step()
        return {"tops": [*tops, time.perf_counter()]}
    with lastgood.Run(training.state(), job=place, every=every, keep=lastgood.Keep(last=2), **settings) as run:
        ended = 0.0
        for step in run.steps(steps):
            tops.append(time.perf_counter())
            if step == 2:
                # A job runs longer than this before its first save: its memory is got ready meanwhile.
                time.sleep(pause_s)
            training.step()
            ended = time.perf_counter()
    return {"tops": [*tops, ended]}


def restore(training: Training, place: Path, settings: dict[str, Any]) -> float:
    """Seconds until a program that has its memory already goes on where the job was."""
    return timed(lambda: lastgood.Run(training.state(), job=place, **settings).close(), training.device)


def main() -> int:
    arguments = parse()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("there is no GPU here that torch can use (--device cpu tries the script without one)", file=sys.stderr)
        return 1
    facts = {**table.machine(arguments.directory), **table.versions(("torch", "lastgood"))}
    facts["device"] = torch.cuda.get_device_name(device) if device.type == "cuda" else "none (cpu)"
    print(table.about(facts) + "\n", flush=True)
    training = Training(arguments.gigabytes, device)
    raw: dict[str, Any] = {"bytes": training.nbytes}
    tables = []
    if device.type == "cuda":
        raw["copy"] = rates = copy_rates(min(training.nbytes, 2 * 10**9), arguments.rounds, device)
        limit = table.median(rates["pinned memory (the limit)"])
        rows = [[name, table.shown(values, 1), f"{table.median(values) / limit:.2f}"] for name, values in rates.items()]
        tables.append("**From the device**\n\n" + table.markdown(["into", "GB/s", "of the limit"], rows))
    raw["every 10"], raw["every step"], raw["restore_s"] = {}, {}, []
    for number in range(arguments.rounds):
        for mode in MODES:
            for name, every in (("every 10", SAVE_EVERY), ("every step", 1)):
                with job(arguments.directory) as place:
                    found = loop(training, place, mode, every, arguments.steps, arguments.pause_s)
                    raw[name].setdefault(mode, []).append(found)
                    if mode == "copied at once" and name == "every 10":
                        raw["restore_s"].append(restore(training, place, {"every": every}))
        print(f"round {number + 1} of {arguments.rounds} done", file=sys.stderr, flush=True)
    tables += [stall_table(raw), step_table(raw), restore_table(raw)]
    print("\n\n".join(tables))
    table.write_json(arguments.output, {**facts, "raw": raw, "tables": tables})
    return 0


def stall_table(raw: dict[str, Any]) -> str:
    rows = []
    for mode, runs in raw["every 10"].items():
        if MODES[mode] is not None:
            saves = [measures.stalls(one["tops"], SAVE_EVERY).saves for one in runs]
            first, later = [s[0] for s in saves if s], [value for s in saves for value in s[1:]]
            rows.append([mode, table.shown(first, 3), table.shown(later, 3)])
    title = f"**Standing still**, {table.size(raw['bytes'])}, a save every {SAVE_EVERY} steps"
    return f"{title}\n\n" + table.markdown(["", "first save, s", "later saves, s"], rows)


def step_table(raw: dict[str, Any]) -> str:
    def took(runs: list[dict[str, Any]]) -> list[float]:
        # Beginning and end of the loop are something else.
        return [(one["tops"][-2] - one["tops"][4]) / (len(one["tops"]) - 6) for one in runs]

    rows = []
    for name in ("every 10", "every step"):
        plain = table.median(took(raw[name]["no saves"]))
        for mode, runs in raw[name].items():
            rows.append([name, mode, table.shown(took(runs), 4), f"{table.median(took(runs)) / plain:.3f}"])
    title = "**A step, saves included** (storage has to keep up where every step is saved)"
    return f"{title}\n\n" + table.markdown(["a save", "", "s", "of no saves"], rows)


def restore_table(raw: dict[str, Any]) -> str:
    rates = [raw["bytes"] / seconds / 1e9 for seconds in raw["restore_s"]]
    rows = [[table.shown(raw["restore_s"], 2), table.shown(rates, 2)]]
    return "**Restoring into tensors that are there**, checked\n\n" + table.markdown(["s", "GB/s"], rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of parameters and moments (default: 4)")
    parser.add_argument("--steps", type=int, default=40, help="of each loop (default: 40)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: 5)")
    parser.add_argument("--pause-s", type=float, default=4.0, help="time before the first save (default: 4)")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="for checkpoints")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--output", type=Path, default=table.RESULTS / "gpu.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
