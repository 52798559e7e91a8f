"""A rank in a process of its own, which does what it is told line by line: `python -m keeper.rank_program
JOB RANK ATTEMPT RANKS`."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from keeper.ranks import Rank
from lastgood.store.jobdir import JobDirectory, open_job


class RankProcess:
    """The other end. Leaving the context kills it."""

    def __init__(self, job: JobDirectory, rank: int = 0, attempt: int = 1, world_size: int = 1) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "keeper.rank_program", str(job.path), str(rank), str(attempt), str(world_size)],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def tell(self, command: str) -> None:
        """Without waiting for it to be done."""
        assert self._process.stdin
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def do(self, command: str) -> str:
        """What it answers when it is done."""
        self.tell(command)
        assert self._process.stdout
        answer = self._process.stdout.readline().strip()
        assert answer, f"it has ended at {command!r}"
        return answer

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> "RankProcess":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()


def main(path: str, number: int, attempt: int, world_size: int) -> None:
    rank = Rank(open_job(path), number, world_size, attempt)
    for line in sys.stdin:
        command, *arguments = line.split()
        answer = "done"
        try:
            if command == "fill":
                # Without a word to the keeper: what a process does that was frozen in a copy and wakes up.
                for arena in rank.arenas:
                    arena.view[:] = bytes([int(arguments[0])]) * arena.capacity
            elif command == "bye":
                rank.keeper.bye()
            else:
                getattr(rank, command)(*map(int, arguments))
        except OSError as error:
            answer = f"failed: {error}"
        print(answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
