"""Keepers and shared memory that tests could leave behind."""

import os
from contextlib import suppress
from pathlib import Path

import psutil

from keeper.ranks import LIMIT_S, until


def keepers_of(directory: Path) -> list[psutil.Process]:
    """The keepers of all jobs below a directory."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if any(word.endswith("lastgood/keeper/__main__.py") for word in command) and any(
            word.startswith(f"{directory}/") for word in command
        ):
            found.append(process)
    return found


def end_keepers(directory: Path) -> None:
    """Have them finish what they write and go, and see that they do."""
    keepers = keepers_of(directory)
    for keeper in keepers:
        # Nobody is connected any more, and nobody will be. It may have gone by itself meanwhile.
        with suppress(psutil.NoSuchProcess):
            keeper.terminate()
    _, alive = psutil.wait_procs(keepers, LIMIT_S)
    for keeper in alive:
        with suppress(psutil.NoSuchProcess):
            keeper.kill()
    assert not alive, "somebody is still connected to a keeper, or it cannot end"


def shared_memory() -> int:
    """Pieces of memory for snapshots that any process of this machine has open."""
    found = set()
    for process in os.listdir("/proc"):
        try:
            for name in os.listdir(f"/proc/{process}/fd"):
                at = f"/proc/{process}/fd/{name}"
                if os.readlink(at).startswith("/memfd:lastgood"):
                    found.add(os.stat(at).st_ino)
        except OSError:
            continue
    return len(found)


def await_no_keeper(directory: Path, limit_s: float = LIMIT_S) -> None:
    until(lambda: not keepers_of(directory), limit_s)
