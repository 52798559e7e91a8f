"""Lives of a job that stages its checkpoints, with states of which every byte is known."""

from pathlib import Path

from faults import constant_states, lossyfs, states
from lastgood.core.layout import checkpoint_name
from lastgood.core.retention import Keep
from lastgood.store import attempts, jobdir, staging, sweep
from lastgood.store.jobdir import JobDirectory
from lastgood.store.promotion import Promoter
from lastgood.store.staging import Stage


def begin(home: str) -> tuple[JobDirectory, Stage, int]:
    """A start: the next attempt claimed, and what dead ones left swept on both sides, but for what goes on."""
    job = jobdir.create_job(home + "/job")
    attempt = attempts.claim_attempt(job, "").attempt
    stage = staging.open_stage(job, home + "/scratch")
    staging.note_stage(stage, attempt)
    sweep.sweep_incomplete(stage.staged, attempt)
    sweep.sweep_incomplete(job, attempt, spare=[c.name for c in stage.pending()])
    return job, stage, attempt


def save(stage: Stage, step: int, attempt: int, base: int = 1) -> None:
    constant_states.write(stage.staged, step, attempt, base)


def promote(stage: Stage, attempt: int, home: str = "") -> None:
    """Promote what is pending, and retire on both sides."""
    promoter = Promoter(stage, lambda: attempt)
    for listed in stage.pending()[:1]:
        promoter.promote(listed.name)
        if home:
            lossyfs.leave_note(home, f"promoted {listed.step}")
    sweep.Retention(stage.job, Keep(last=1), attempt).apply()
    stage.retain(attempt, keep=1)


def staged_life(home: str, step: int) -> None:
    """An attempt that takes up what the one before left, saves once, promotes and retires."""
    _, stage, attempt = begin(home)
    promote(stage, attempt)
    save(stage, step, attempt)
    promote(stage, attempt)


def noted_staged_life(home: str, step: int) -> None:
    states.make_repeatable(step)
    _, stage, attempt = begin(home)
    promote(stage, attempt, home)
    save(stage, step, attempt)
    lossyfs.leave_note(home, f"staged {step}")
    promote(stage, attempt, home)


def promotion(home: str, attempt: int) -> None:
    """What a keeper does after a commit on the stage."""
    job = jobdir.open_job(home + "/job")
    promote(staging.open_stage(job, home + "/scratch"), attempt)


def newest_whole(home: Path) -> tuple[int | None, int | None]:
    """The newest committed step of the durable directory, and of the stage. Every checkpoint on both is whole."""
    job = jobdir.create_job(home / "job")
    stages = staging.find_stages(job, home / "scratch")
    return constant_states.newest_whole(job), constant_states.newest_whole(stages[0].staged) if stages else None


def next_attempt_works(home: Path, step: int = 90) -> None:
    """A new attempt takes over; then exactly its checkpoint is left, on both sides."""
    staged_life(str(home), step)
    assert newest_whole(home) == (step, step)
    job = jobdir.open_job(home / "job")
    name = checkpoint_name(step, max(attempts.attempt_numbers(job)))
    (stage,) = staging.find_stages(job)
    for side in (job, stage.staged):
        assert [p.name for p in side.checkpoints.iterdir()] == [name]
        assert len(list(side.constants.iterdir())) == 1
    assert not list(home.rglob("*.part"))
