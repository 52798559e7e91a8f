"""LG203: checkpoints lie on the node's own storage, and nothing brings them away in time."""

import os
from collections.abc import Iterator

from lastgood.audit.batch.applications import keeps_where_it_runs
from lastgood.audit.batch.changes import Storage, is_absolute, local_storage
from lastgood.audit.batch.copies import Copied, Copies
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.places import MOST_WORK, Place, directory_of, is_training, only_reads, places_of, saves
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Word
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or script.uses_lastgood or is_short(script):
        return
    reported: set[int] = set()
    copies = Copies(script)
    for place in places_of(script):
        found = _storage(script, place)
        if found is None or place.command.begin in reported:
            continue
        path, storage = found
        if not (place.is_for_checkpoints or saves(place.launch) or is_training(place.launch)):
            continue
        is_copied_away = copies.when(path, place.command) is not Copied.NEVER
        if not is_copied_away and copies.is_filled_before(path, place.command):
            # Something to read from.
            continue
        hit = _hit(copies, path, storage, place.command, place.written, f"`{place.option}` is")
        if hit is not None:
            reported.add(place.command.begin)
            yield hit
    for command, launch in script.work[:MOST_WORK]:
        here = directory_of(script, command)
        storage_here = local_storage(here) if here is not None else None
        if here is None or storage_here is None or command.begin in reported:
            continue
        # Others may use it only for what they do not need afterwards.
        is_brought_back = copies.when(here, command) is Copied.AT_THE_END
        if not is_brought_back or not (keeps_where_it_runs(launch) or is_training(launch)) or only_reads(launch):
            continue
        name = os.path.basename(launch.python_script) or launch.program
        hit = _hit(copies, here, storage_here, command, launch.words[0], f"`{name}` runs and saves")
        if hit is not None:
            yield hit


def _storage(script: BatchScript, place: Place) -> tuple[Word, Storage] | None:
    """Where a place is, if that is on a node in any case."""
    paths = place.choices
    if not all(is_absolute(path) for path in paths):
        here = directory_of(script, place.command)
        paths = (here,) if here is not None else ()
    stores = [(path, local_storage(path)) for path in paths]
    if not stores or any(storage is None for _, storage in stores):
        return None
    path, storage = stores[0]
    assert storage is not None
    mounted = f":{storage.name}"
    if any(mounted in word.text for wrapper in place.launch.wrappers for word in wrapper.words):
        # A directory of the container, mounted from elsewhere.
        return None
    return path, storage


def _hit(copies: Copies, path: Word, storage: Storage, command: Command, at: Word, what: str) -> Hit | None:
    copied = copies.when(path, command)
    if copied is Copied.MEANWHILE:
        return None
    where = (
        f"{storage.name}, which is storage of one node"
        if storage.is_certain
        else f"{storage.name}, as a rule storage of one node"
    )
    lost = (
        "is copied away only behind the work, which a killed job does not reach"
        if copied
        else "is not there on another node"
    )
    return Hit(
        span=at.span,
        message=f"{what} on {where}: what was saved {lost}",
        remedy="save to shared storage, or copy each finished checkpoint there while the work runs, as `lastgood.Run(..., stage=...)` does",
        severity=Severity.MAY_BE_LOST if copied or not storage.is_certain else Severity.LOST,
    )


RULE = Rule(
    code="LG203",
    name="checkpoints-on-node-storage",
    severity=Severity.MAY_BE_LOST,
    what="Checkpoints, or the working directory of a program that saves where it runs, in `/tmp`, `/dev/shm`, `$TMPDIR` and the "
    "like, without a copy to shared storage while the work runs.",
    why="A job that is requeued after a node's death or a preemption starts on another node, where the files are not. Many clusters "
    "delete them when the job ends. A copy behind the work is not made when the job is killed at its time limit.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --checkpoint-dir /tmp/$USER/ckpt --resume
cp -r /tmp/$USER/ckpt /project/results/
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --checkpoint-dir /project/results/$SLURM_JOB_ID --resume
""",
    safe_to_ignore="The directory is mounted from shared storage on this cluster, or the program copies its checkpoints itself.",
    source="sbatch(1), --requeue; the storage pages of computing centres, which agree that job-local storage ends with the job",
    reads=BatchScript,
    check=check,
)
