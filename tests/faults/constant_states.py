"""States in which most arrays do not change, of which every byte is known. One rank: several are no different here,
and every system call of a scenario is a point where it is killed."""

from functools import cache

from faults.states import FLOATS
from lastgood.core.layout import checkpoint_name
from lastgood.core.retention import Keep
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import attempts, catalogue, jobdir, reader, sweep
from lastgood.store.constants import ConstantsWriter
from lastgood.store.jobdir import JobDirectory
from lastgood.store.writer import CheckpointWriter


@cache
def base_of(base: int) -> bytes:
    return bytes((base * 11 + at * 17) % 251 for at in range(4 * FLOATS))


def write(job: JobDirectory, step: int, attempt: int, base: int, writer: ConstantsWriter | None = None) -> None:
    """A whole save; `base` says which constants, `writer` knows what is written already."""
    writer = writer or ConstantsWriter(job, attempt)
    constants = writer.put([(ArraySpec("model.base", "F32", (FLOATS,)), memoryview(base_of(base)))])
    entries = {"model": {name: {"$array": f"model.{name}", "kind": "numpy"} for name in ("base", "count")}}
    count = memoryview(step.to_bytes(8, "little"))
    save = CheckpointWriter(job, step, attempt)
    save.write_part(0, [(ArraySpec("model.count", "I64", ()), count)], entries, constants=[constants])
    save.commit(1, metrics={"base": float(base)})


def live(job: str, step: int, base: int, keep: int = 1) -> None:
    """Start, save with constants and retire in one process: one attempt of a job that saves once."""
    directory = jobdir.create_job(job)
    attempt = attempts.claim_attempt(directory, "").attempt
    sweep.sweep_incomplete(directory, attempt)
    write(directory, step, attempt, base)
    sweep.Retention(directory, Keep(last=keep), attempt).apply()


def unfreeze(job: str, attempt: int) -> None:
    """One attempt that saves twice, with other constants the second time, and retires after each."""
    directory = jobdir.open_job(job)
    retention = sweep.Retention(directory, Keep(last=1), attempt)
    writer = ConstantsWriter(directory, attempt)
    for step, base in ((20, 1), (30, 2)):
        write(directory, step, attempt, base, writer)
        retention.apply()


def newest_whole(job: JobDirectory) -> int | None:
    """The newest committed step. Every committed checkpoint must be whole, and what was written."""
    steps = []
    for listed in catalogue.list_checkpoints(job):
        if listed.is_committed:
            checkpoint = reader.open_checkpoint(job, listed.name)
            assert checkpoint.verify() == [], f"{listed.name} is committed but damaged"
            assert _matches(checkpoint), f"{listed.name} passes its checks but is not what was written"
            steps.append(listed.step)
    return steps[0] if steps else None


def _matches(checkpoint: reader.Checkpoint) -> bool:
    base = int(checkpoint.manifest.metrics["base"])
    return {name: bytes(data) for name, data in checkpoint.read(0, checkpoint.arrays(0)).items()} == {
        "model.base": base_of(base),
        "model.count": checkpoint.manifest.step.to_bytes(8, "little"),
    }


def next_attempt_works(job: JobDirectory, step: int = 90) -> None:
    """A new attempt saves and retires; then exactly its checkpoint and its constants are left."""
    number = attempts.claim_attempt(job, "").attempt
    sweep.sweep_incomplete(job, number)
    write(job, step, number, 1)
    sweep.Retention(job, Keep(last=1), number).apply()
    assert newest_whole(job) == step
    assert [c.name for c in catalogue.list_checkpoints(job)] == [checkpoint_name(step, number)]
    used = reader.open_checkpoint(job, checkpoint_name(step, number)).manifest.constants
    assert sorted(p.name for p in job.constants.iterdir()) == [constants.file for constants in used]
