"""Agreement of the ranks of an MPI job (mpi4py), over a communicator of our own.

MPI itself waits for ever. So every operation here is begun and then looked after, with a limit; and where a rank has
given up, or an exception ends it, the job is aborted at the end of its program: MPI_Finalize would wait for the others,
who wait for it.
"""

import atexit
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from lastgood.core.errors import LastgoodError, RankTimeoutError
from lastgood.runtime.exchanges import Exchanges

_HERE_TAG = 1
_HERE_AFTER_S = 1.0
"""A rank that has waited that long in an exchange tells rank 0 so, which can then say who has not come."""

_DIAGNOSIS_S = 2.0
"""How much longer than the limit rank 0 listens for ranks that came late."""

_COURTESY_S = 3.0
"""How long a rank lives on after it has given up: whoever watches the ranks takes the end that comes first for the
cause, and it should be that of the rank which failed on its own account, or of the one that knows most."""

_abandoned: list[object] = []
"""Operations that nobody waits for any more. What they still may write to has to stay."""


def ranks_of_world(limit_s: float) -> "MpiRanks | None":
    """The ranks of the job that this process was started in; None if MPI is not in use, or there is only one."""
    if not MPI.Is_initialized() or MPI.Is_finalized() or MPI.COMM_WORLD.Get_size() == 1:
        return None
    return MpiRanks(limit_s)


class MpiRanks(Exchanges):
    """See `lastgood.runtime.ports.Ranks`. Must be made by all ranks together."""

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rank: int = MPI.COMM_WORLD.Get_rank()
        self.world_size: int = MPI.COMM_WORLD.Get_size()
        self._limit_s = limit_s
        self._clock = clock
        self._exchanges = 0
        self._has_given_up = False
        self._comm: Any = None
        self._ending: Any = None
        atexit.register(self._at_exit)
        # Ranks that end meet where no operation of before can be taken for theirs.
        self._ending = self._duplicate()
        self._comm = self._duplicate()

    def _duplicate(self) -> Any:
        comm, request = MPI.COMM_WORLD.Idup()
        self._wait(request, comm)
        return comm

    def broadcast(self, data: memoryview, source: int) -> None:
        self._wait(self._comm.Ibcast([data, MPI.BYTE], root=source), data)

    def close(self) -> None:
        # Freeing the communicator would wait for ranks that may not come; the end of MPI frees it.
        return

    def _maximum(self, values: list[int]) -> list[int]:
        mine, found = array("q", values), array("q", values)
        self._wait(self._comm.Iallreduce([mine, MPI.INT64_T], [found, MPI.INT64_T], op=MPI.MAX), (mine, found))
        return list(found)

    def _wait(self, request: Any, held: object) -> None:
        """Wait for an operation, which needs what is `held`. Raises RankTimeoutError after the limit."""
        self._exchanges += 1
        begun = self._clock()
        has_told = False
        # MPI makes progress only while it is asked. Most exchanges are over at once; a long wait must not take a core.
        pause_s = 0.0
        while not request.Test():
            waited_s = self._clock() - begun
            if waited_s > self._limit_s:
                _abandoned.append((request, held))
                raise self._given_up()
            if waited_s > _HERE_AFTER_S and not has_told:
                self._tell_that_here()
                has_told = True
            time.sleep(pause_s)
            if waited_s > 0.002:
                pause_s = min(0.001, waited_s / 50)

    def _given_up(self) -> RankTimeoutError:
        self._has_given_up = True
        missing = self._missing()
        time.sleep(_COURTESY_S)
        return RankTimeoutError(
            f"rank {self.rank} waited for {missing} in vain: nothing was heard for {self._limit_s:g} s",
            safe="checkpoints that were committed are whole",
            remedy="look for the first error in that rank's output; run again to resume from the last good checkpoint",
        )

    def _tell_that_here(self) -> None:
        if self.rank != 0 and self._comm is not None:
            here = array("q", [self._exchanges])
            _abandoned.append((self._comm.Isend([here, MPI.INT64_T], dest=0, tag=_HERE_TAG), here))

    def _missing(self) -> str:
        """Which ranks do not answer, as text. Only rank 0 hears of all."""
        if self._comm is None:
            return "other ranks"
        if self.rank != 0:
            time.sleep(_DIAGNOSIS_S)
            return "rank 0, or a rank that rank 0 waits for"
        end = self._clock() + _DIAGNOSIS_S
        last_heard = [0] * self.world_size
        while self._clock() < end:
            while self._comm.Iprobe(source=MPI.ANY_SOURCE, tag=_HERE_TAG):
                status, here = MPI.Status(), array("q", [0])
                self._comm.Recv([here, MPI.INT64_T], source=MPI.ANY_SOURCE, tag=_HERE_TAG, status=status)
                last_heard[status.Get_source()] = max(last_heard[status.Get_source()], here[0])
            time.sleep(0.01)
        missing = [str(rank) for rank, heard in enumerate(last_heard) if rank and heard < self._exchanges]
        return f"ranks {', '.join(missing)}" if missing else "a rank that answers again now"

    def _do_all_end(self) -> bool:
        """True if every rank ends now by an exception or has given up: then the end of MPI waits for nobody."""
        if self._ending is None:
            return False
        request = self._ending.Ibarrier()
        _abandoned.append(request)
        end = self._clock() + _COURTESY_S
        while not request.Test():
            if self._clock() > end:
                return False
            time.sleep(0.01)
        return True

    def _at_exit(self) -> None:
        """Abort the job if this rank ends by an exception that nobody caught, or has given up, and others do not."""
        error = getattr(sys, "last_value", None)
        if hasattr(sys, "ps1") or not (self._has_given_up or error is not None):
            return
        # Everybody else who has something to do at the end comes first.
        atexit.unregister(self._at_exit)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        if self._do_all_end():
            return
        code = (
            error.exit_code if isinstance(error, LastgoodError) else RankTimeoutError.exit_code if error is None else 1
        )
        MPI.COMM_WORLD.Abort(code)
