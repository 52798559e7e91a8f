"""Finding the keeper of this node: connecting to it, and starting one where that is our business."""

import os
import time
from collections.abc import Callable, Mapping

import msgspec

from lastgood.keeper.client import ANSWER_LIMIT_S, Keeper, NoKeeperError, RefusedError
from lastgood.keeper.starting import start_keeper
from lastgood.store.jobdir import JobDirectory

_AGAIN_S = 0.1

_REFUSED_S = 3.0
"""How long one that refuses may take to end, if it serves nobody else."""


class Home(msgspec.Struct, frozen=True):
    """Where this rank runs, as far as its keeper goes."""

    rank: int
    local_ranks: int
    linger_s: float
    is_keeper_held: bool
    """The keeper is the launcher's, or its agent's, and nobody else starts one."""
    environment: Mapping[str, str]


def find_keeper(
    job: JobDirectory,
    home: Home,
    greet: Callable[[Keeper], None],
    limit_s: float,
    answer_s: float = ANSWER_LIMIT_S,
    *,
    may_start: bool = True,
) -> Keeper:
    """A keeper that `greet` has talked to. Tries again for `limit_s`: one may just be ending, or just be started by
    another rank or by the launcher. Raises NoKeeperError, at once if it cannot be started, soon if it refuses."""
    began = time.monotonic()
    while True:
        try:
            if may_start and not home.is_keeper_held:
                start_keeper(job, home.linger_s, home.environment, is_detached=True)
        except OSError as error:
            raise NoKeeperError(str(error)) from error
        try:
            keeper = Keeper(job, home.rank, answer_s)
            try:
                greet(keeper)
            except BaseException:
                keeper.close()
                raise
            return keeper
        except OSError as error:
            patience_s = min(limit_s, _REFUSED_S) if isinstance(error, RefusedError) else limit_s
            if isinstance(error.__cause__, TimeoutError):
                # One that does not answer in time will not the next time.
                patience_s = 0.0
            if time.monotonic() - began > patience_s:
                raise error if isinstance(error, NoKeeperError) else NoKeeperError(str(error)) from error
        time.sleep(_AGAIN_S)


def occupy_standard_descriptors() -> None:
    """A program that was started without standard streams must not print into our memory, or into a connection."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest that is free is taken.
            os.open(os.devnull, os.O_RDWR)
