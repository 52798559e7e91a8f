"""A tiny real training loop, for campaigns over a whole `lastgood.Run`."""

import hashlib
import os
import signal
from pathlib import Path

import numpy as np

import lastgood
from faults import lossyfs
from lastgood.store.writer import CheckpointWriter

TOTAL = 6
EVERY = 3


def train(
    job: str,
    state: str,
    total: int = TOTAL,
    policy: str = "warn",
    result: str = "",
    attempt: int = 0,
    is_noted: bool = False,
    dies_in: int = 0,
) -> None:
    """Train for `total` steps and write a digest of everything that was learned to `result`. `dies_in` is
    the step in which the process ends at once.

    With `attempt` it runs as if a launcher on another node had claimed that number: no lock is taken.
    """
    os.environ["LASTGOOD_STATE_DIR"] = state
    if attempt:
        os.environ |= {"LASTGOOD_JOB": job, "LASTGOOD_ATTEMPT": str(attempt), "LASTGOOD_LAUNCH": f"launch-{attempt}"}
    if is_noted:
        _note_commits(job)
    rng = np.random.default_rng(7)
    weights = np.zeros(5000)
    run = lastgood.Run(
        {"weights": weights, "rng": rng},
        job=job,
        every=EVERY,
        keep=lastgood.Keep(last=2),
        on_save_error=policy,  # type: ignore[arg-type]
    )
    run.values.setdefault("seen", [])
    for step in run.steps(total):
        if step == dies_in:
            os.kill(os.getpid(), signal.SIGKILL)
        weights += 0.1 * (rng.standard_normal(weights.size) - weights)
        run.values["seen"].append(step)
        run.log(loss=float(np.abs(weights).mean()))
    run.close()
    if result:
        digest = hashlib.sha256(weights.tobytes() + repr(run.values["seen"]).encode() + rng.bytes(32))
        Path(result).write_text(digest.hexdigest())


def _note_commits(job: str) -> None:
    commit = CheckpointWriter.commit

    def noted(self: CheckpointWriter, *args: object, **options: object) -> object:
        manifest = commit(self, *args, **options)  # type: ignore[arg-type]
        lossyfs.leave_note(job, f"committed {manifest.step}")
        return manifest

    CheckpointWriter.commit = noted  # type: ignore[method-assign,assignment]
