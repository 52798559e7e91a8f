"""Programs of several ranks that save once, and restore in either way of reading. See runtime.zygote."""

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch

import lastgood
from lastgood.frameworks.torch_ranks import TorchRanks
from lastgood.store import content, writer
from runtime.endings import say
from runtime.training import die, join

LENGTH = 300_000
"""Numbers of four bytes in each array: some blocks of the size below."""

BLOCK_BYTES = 2**16


def ranks() -> tuple[int, int]:
    return join() if int(os.environ.get("WORLD_SIZE", "1")) > 1 else (0, 1)


def state_of(rank: int, factor: float) -> dict[str, torch.Tensor]:
    """Two arrays that all ranks have in common, and one that each has of its own."""
    common = torch.arange(float(LENGTH))
    return {"one": factor * common, "two": -factor * common, "own": factor * common + rank}


def save(job: str, steps: int = 1) -> None:
    """Checkpoints whose arrays are multiples of the step."""
    writer.BLOCK_BYTES = BLOCK_BYTES
    rank, world_size = ranks()
    state = state_of(rank, 0)
    if world_size == 1:
        del state["own"]
    keep = lastgood.Keep(last=None)
    run = lastgood.Run(state, job=job, every=1, random=False, keep=keep, background=False)
    for step in run.steps(steps):
        for name, tensor in state_of(rank, step).items():
            if name in state:
                state[name].copy_(tensor)


def restore(job: str, read: Any, how: str = "", allow: bool = False, rank_limit: str = "100s") -> None:
    """Says the step, how many bytes were read of data files, and whether every array is what it should be."""
    rank, world_size = ranks()
    state = {name: torch.zeros(LENGTH) for name in ("one", "two", "own")}
    if how != "own of rank 0" and (world_size == 1 or allow):
        del state["own"]
    count = _count_reads(how, rank)
    _interfere(how, rank)
    run = lastgood.Run(
        state,
        job=job,
        every=1000,
        random=False,
        read=read,
        background=False,
        allow_world_size_change=allow,
        rank_limit=rank_limit,
    )
    expected = state_of(0 if how == "own of rank 0" else rank, run.step)
    is_right = all(torch.equal(tensor, expected[name]) for name, tensor in state.items())
    ways = f"read {count['fast'] + count['cache']} cached {count['cache']}"
    say(f"step {run.step} {ways} {'right' if is_right else 'WRONG'}")
    os._exit(0)


def _count_reads(how: str, rank: int) -> Counter[str]:
    """Bytes that are read of data files in each way."""
    count: Counter[str] = Counter()
    ways: dict[int, str] = {}
    real, real_init = content.StoredContent.block, content.StoredContent.__init__

    def init(self: Any, path: Path, expected_bytes: int, way: Any = "fast") -> None:
        real_init(self, path, expected_bytes, way)
        ways[id(self)] = way

    def block(self: Any, begin: int, end: int) -> memoryview | None:
        count[ways[id(self)]] += end - begin
        if how == "storage fails" and rank == 1 and begin > 10 * BLOCK_BYTES and "000000000002-" in self.name:
            raise OSError(errno.EIO, "Input/output error")
        return real(self, begin, end)

    content.StoredContent.block = block  # type: ignore[method-assign]
    content.StoredContent.__init__ = init  # type: ignore[method-assign]
    return count


def _interfere(how: str, rank: int) -> None:
    real = TorchRanks.broadcast
    calls = [0]

    def broadcast(self: TorchRanks, data: memoryview, source: int) -> None:
        if len(data) > BLOCK_BYTES // 2:
            calls[0] += 1
            if how == "killed" and calls[0] == 5 and rank == 1:
                die()
        real(self, data, source)
        if how == "altered on the way" and calls[0] == 5 and rank == 1 and source == 0 and len(data) > BLOCK_BYTES // 2:
            data[-1] ^= 1

    TorchRanks.broadcast = broadcast  # type: ignore[method-assign]


def damage(path: Path, name: str, rank: int) -> None:
    """A flipped bit in the middle of what that rank has written."""
    file = path / "checkpoints" / name / f"rank-{rank:05d}.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
