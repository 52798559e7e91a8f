"""One process that makes load until its input is closed.

python -m lastgood.drill.load_worker cpu | memory BYTES | io DIRECTORY
"""

import hashlib
import itertools
import mmap
import os
import sys
import threading
from pathlib import Path

_BLOCK = os.urandom(1 << 20)
_FILE_BLOCKS = 64
_STRIDE = 4096


def main(kind: str, *arguments: str) -> None:
    threading.Thread(target=_end_with_input, daemon=True).start()
    is_first = True
    if kind == "cpu":
        _say_ready()
        while True:
            hashlib.sha256(_BLOCK).digest()
    if kind == "memory":
        size = int(arguments[0])
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for value in itertools.cycle(range(1, 256)):
            for at in range(0, size, _STRIDE):
                memory[at] = value
            if is_first:
                _say_ready()
                is_first = False
    path = Path(arguments[0]) / "file"
    while True:
        with open(path, "w+b", buffering=0, opener=_flushing) as file:
            for _ in range(_FILE_BLOCKS):
                file.write(_BLOCK)
                if is_first:
                    _say_ready()
                    is_first = False
            file.seek(0)
            while file.read(len(_BLOCK)):
                pass


def _flushing(path: str, flags: int) -> int:
    """Opened so that each write is on the device when it returns."""
    return os.open(path, flags | os.O_DSYNC, 0o600)


def _say_ready() -> None:
    """To the drill, through a pipe that it may have stopped reading."""
    os.write(sys.stdout.fileno(), b".")


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
