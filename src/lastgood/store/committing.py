"""The end of a save: the commit and what follows it, each with its line in the attempt's journal."""

import socket
from collections.abc import Callable
from typing import Any

from lastgood.core.errors import FencedError, LastgoodError
from lastgood.core.manifest import Manifest
from lastgood.store.attempts import Journal
from lastgood.store.sweep import Retention
from lastgood.store.writer import CheckpointWriter


def commit(
    writer: CheckpointWriter,
    journal: Journal,
    world_size: int,
    *,
    clock: Callable[[], float],
    stage: str = "",
    **facts: Any,
) -> tuple[Manifest, float]:
    """Commit a checkpoint whose parts are all written; its manifest, and the seconds since `began`. `stage` is the
    path of the stage that it is on, if it is.

    `facts` as for `CheckpointWriter.commit`. Raises what that raises.
    """
    manifest = writer.commit(world_size, **facts)
    write_s = max(0.0, clock() - facts["began"])
    where = {"stage": stage, "host": socket.gethostname()} if stage else {}
    journal.write(
        "committed", step=manifest.step, name=manifest.name, bytes=manifest.bytes, write_s=round(write_s, 6), **where
    )
    return manifest, write_s


def retain(retention: Retention, journal: Journal, step: int) -> str:
    """Apply retention after the commit of `step`; why that did not work, or nothing.

    Deleting is housekeeping: it is tried again after the next save, and must not cost the one that has just
    worked. Only FencedError is raised.
    """
    try:
        deleted, trouble = retention.apply(), ""
    except FencedError:
        raise
    except LastgoodError as error:
        deleted, trouble = [], error.what
    except OSError as error:
        deleted, trouble = [], str(error)
    for verdict in deleted:
        journal.write("deleted", name=verdict.name, reason=verdict.reason)
    if trouble and trouble != retention.trouble:
        journal.write("not_deleted", step=step, error=trouble)
    retention.trouble = trouble
    return trouble


def note_failure(journal: Journal, step: int, rank: int, error: LastgoodError) -> None:
    journal.write("save_failed", step=step, rank=rank, error=error.what)
