"""What is done to a job while a campaign kills, stops or cuts it. Each runs in a process of its own.

No NumPy, and nothing that starts threads before the work: the process must be small enough to start
some hundred times.
"""

import resource
import signal

from faults import constant_states, flaws, lossyfs, staged_states, states
from lastgood.core.layout import PINNED_FILE, REJECTED_FILE
from lastgood.core.retention import Keep
from lastgood.store import attempts, catalogue, durable, jobdir, reader, sweep


def start(job: str) -> None:
    """What every start does first: the job's directory, and the next attempt in it."""
    directory = jobdir.create_job(job)
    attempts.claim_attempt(directory, "")


def save(job: str, step: int, attempt: int) -> None:
    states.write(jobdir.open_job(job), step, attempt)


def retire(job: str, keep: int, attempt: int) -> None:
    sweep.Retention(jobdir.open_job(job), Keep(last=keep), attempt).apply()


def recover(job: str, attempt: int) -> None:
    sweep.sweep_incomplete(jobdir.open_job(job), attempt)


def reject(job: str, name: str) -> None:
    catalogue.set_mark(jobdir.open_job(job), name, REJECTED_FILE, "a test says so", 1)


def pin(job: str, name: str) -> None:
    catalogue.set_mark(jobdir.open_job(job), name, PINNED_FILE, "a test says so")


def whole_life(job: str, step: int, keep: int = 1) -> None:
    """Start, save and retire in one process: one attempt of a job that saves once."""
    directory = jobdir.create_job(job)
    attempt = attempts.claim_attempt(directory, "").attempt
    sweep.sweep_incomplete(directory, attempt)
    states.write(directory, step, attempt)
    sweep.Retention(directory, Keep(last=keep), attempt).apply()


def noted_life(job: str, step: int, flaw: str = "") -> None:
    """A start, a retirement, a save and another retirement, on a `lossyfs`, which is told when a commit
    has returned. `flaw` breaks the store on purpose."""
    flaws.bring_in(flaw)
    states.make_repeatable(step)
    directory = jobdir.create_job(job)
    attempt = attempts.claim_attempt(directory, "").attempt
    with durable.explained("tidy", job):
        sweep.sweep_incomplete(directory, attempt)
    retention = sweep.Retention(directory, Keep(last=1), attempt)
    # As callers do with these: their OSError becomes an error that says what and where.
    with durable.explained("tidy", job):
        retention.apply()
    states.write(directory, step, attempt)
    lossyfs.leave_note(job, f"committed {step}")
    with durable.explained("tidy", job):
        retention.apply()


JUDGING_BYTES = 2 * 2**30
JUDGING_CPU_S = 30
JUDGING_LIMIT_S = 240
"""Real time is for what waits; a machine that is busy with other things must not fail a test."""


def live_with_constants(job: str, step: int, base: int) -> None:
    constant_states.live(job, step, base)


def noted_life_with_constants(job: str, step: int, base: int) -> None:
    """As `noted_life`, with arrays that do not change; of attempts before, two checkpoints are kept."""
    states.make_repeatable(step)
    directory = jobdir.create_job(job)
    attempt = attempts.claim_attempt(directory, "").attempt
    with durable.explained("tidy", job):
        sweep.sweep_incomplete(directory, attempt)
    retention = sweep.Retention(directory, Keep(last=2), attempt)
    for number, constants in enumerate((base, base + 1)):
        constant_states.write(directory, step + number, attempt, constants)
        lossyfs.leave_note(job, f"committed {step + number}")
        with durable.explained("tidy", job):
            retention.apply()


def unfreeze(job: str, attempt: int) -> None:
    constant_states.unfreeze(job, attempt)


def judge(job: str, good: int) -> None:
    """Look for what to resume from, as a start does, with little memory and little time."""
    _with_little()
    damaged: list[str] = []
    assert states.newest_good(jobdir.open_job(job), damaged) == good
    assert damaged, "nothing was found to be damaged"


def judge_size(job: str, name: str, arrays: int) -> None:
    """Open a checkpoint with that many arrays, with little memory and little time."""
    _with_little()
    checkpoint = reader.open_checkpoint(jobdir.open_job(job), name)
    assert checkpoint.verify() == []
    assert len(checkpoint.arrays(0)) == arrays


def _with_little() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (JUDGING_BYTES, JUDGING_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (JUDGING_CPU_S, JUDGING_CPU_S))
    signal.alarm(JUDGING_LIMIT_S)


SCENARIOS = {
    f.__name__: f
    for f in (
        start,
        save,
        retire,
        recover,
        reject,
        pin,
        whole_life,
        noted_life,
        live_with_constants,
        noted_life_with_constants,
        unfreeze,
        staged_states.staged_life,
        staged_states.noted_staged_life,
        staged_states.promotion,
        judge,
        judge_size,
    )
}
