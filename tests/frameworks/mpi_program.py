"""A program of several MPI ranks: `mpirun -n 2 python -m frameworks.mpi_program JOB HOW READ RANK_LIMIT`."""

import os
import sys
import time

import numpy as np
from mpi4py import MPI

import lastgood
from lastgood.core.errors import UsageError
from lastgood.frameworks.mpi_ranks import MpiRanks, ranks_of_world

RANK = MPI.COMM_WORLD.Get_rank()
TOTAL = 6


class Clock:
    """What ranks measure their waits by: slow until this one is told otherwise, as on a busy machine ranks may come to
    the same place many seconds apart."""

    is_slow = True

    def __call__(self) -> float:
        return time.monotonic() / (100 if self.is_slow else 1)


def train(job: str, how: str, read: str, rank_limit: str) -> None:
    """Six steps, of which the third is where rank 1 does something else."""
    clock = Clock()
    MpiRanks.__init__.__defaults__ = (clock,)
    common, own = np.zeros(300_000), np.full(3, float(RANK))
    run = lastgood.Run({"common": common, "own": own}, job=job, every=2, rank_limit=rank_limit, read=read)
    print(f"rank {RANK} begins after step {run.step} with {common[-1]:g} {own[0]:g}", flush=True)
    for step in run.steps(100_000 if how == "long" else TOTAL):
        common += step
        own += step
        if how == "long":
            time.sleep(0.01)
        if step == 3:
            clock.is_slow = False
            print(f"rank {RANK} is process {os.getpid()}", flush=True)
        if step == 3 and RANK == 1:
            depart(how, run)
        if step == 3 and RANK == 1 and how == "break":
            break
    print(f"rank {RANK} ends with {common[-1]:g} {own[0]:g}", flush=True)


def depart(how: str, run: lastgood.Run) -> None:
    if how == "raises":
        raise KeyError("of rank 1")
    if how == "hangs":
        time.sleep(120)
    if how == "leaves":
        sys.exit(0)
    if how == "another place":
        run.safe_point("evaluation", step_is_done=True)
        run.finish()


def agree() -> None:
    """Every operation of Ranks, with values that say which rank they are from."""
    ranks = ranks_of_world(30)
    assert ranks is not None and ranks.world_size == 3
    for numbers in (1, 8, 9, 2000):
        assert ranks.maximum([ranks.rank * index for index in range(numbers)]) == [2 * i for i in range(numbers)]
    assert ranks.equal([7, ranks.rank, -1]) == [True, False, True]
    large = 2**63 - 1
    assert ranks.equal([large, -large, large - ranks.rank]) == [True, True, False]
    for source in range(3):
        text = f"from {source} — ü" * 1000
        assert ranks.tell(text if ranks.rank == source else None, source) == text
        assert ranks.tell("" if ranks.rank == source else None, source) == ""
        data = bytearray(bytes([ranks.rank]) * 5_000_000)
        ranks.broadcast(memoryview(data), source)
        assert data == bytes([source]) * 5_000_000
    assert ranks.tell("default" if ranks.rank == 0 else None) == "default"
    try:
        ranks.maximum([1]) if ranks.rank == 1 else ranks.tell("x")
    except UsageError as error:
        print(f"rank {ranks.rank}: {error.what}", flush=True)
    ranks.close()
    ranks.close()
    print(f"rank {ranks.rank} has agreed", flush=True)


def make_in_turn() -> None:
    """Only rank 0 makes its Ranks."""
    if RANK == 0:
        MpiRanks(1.0)
    time.sleep(60)


if __name__ == "__main__":
    if sys.argv[1] == "agree":
        agree()
    elif sys.argv[1] == "in turn":
        make_in_turn()
    else:
        train(*sys.argv[1:])
