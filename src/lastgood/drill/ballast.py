"""A process that takes memory of a group until the kernel kills somebody there for it.

    python -m lastgood.drill.ballast GROUP_PROCS COUNTER MOST_BYTES

It joins the group, takes memory piece by piece, and stops as soon as the counter of killed processes has grown; it holds
what it has until its input ends. It is not to be killed itself, where that can be had.
"""

import mmap
import os
import sys
from contextlib import suppress
from pathlib import Path

PIECE_BYTES = 1 << 16
NEVER_KILLED = "-1000"


def kills(counter: Path) -> int:
    text = counter.read_text()
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)


def main(processes_file: str, counter_file: str, most: str) -> int:
    counter = Path(counter_file)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(NEVER_KILLED)
    before = kills(counter)
    # Mapped before it joins: only what is touched counts.
    memory = mmap.mmap(-1, int(most), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    Path(processes_file).write_text(str(os.getpid()))
    piece = b"\1" * PIECE_BYTES
    for at in range(0, int(most) - PIECE_BYTES, PIECE_BYTES):
        memory[at : at + PIECE_BYTES] = piece
        if kills(counter) > before:
            break
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
