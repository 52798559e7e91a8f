"""A tiny real training loop, for campaigns over a whole `lastgood.Run`."""

import hashlib
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import lastgood
from faults import lossyfs
from lastgood.keeper import client
from lastgood.keeper.client import NoKeeperError
from lastgood.runtime import background, finding, line
from lastgood.runtime.session import Session

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
    way: str = "foreground",
) -> None:
    """Train for `total` steps and write a digest of everything that was learned to `result`. `dies_in` is
    the step in which the process ends at once.

    With `attempt` it runs as if a launcher on another node had claimed that number: no lock is taken.

    `way` is how saves are made: in the "foreground"; by a "keeper"; or as a keeper makes them, but by this process
    itself ("desk"), so that every system call of it can be seen.
    """
    os.environ |= {"LASTGOOD_STATE_DIR": state, "LASTGOOD_KEEPER": "off" if way == "foreground" else "on"}
    if way == "desk":
        _do_without_keeper()
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


def practise(
    job: str,
    state: str,
    notes: str,
    result: str,
    total: int = 60,
    every: int = 2,
    floats: int = 500_000,
    pause_s: float = 0.0,
    linger: str = "30s",
    eats_in: int = 0,
    limits: dict[str, int] | None = None,
    answer_s: float = 0.0,
    holds_at: int | list[int] = 0,
    go: str = "",
    **settings: Any,
) -> None:
    """Train with a keeper. After each step a line of `notes` says which step is done, of which a snapshot was taken,
    and which is known to be committed. `eats_in` is the step in which it takes memory until there is none,
    `holds_at` those in which it waits for the file `go`, or that of this step; its keeper is there by then."""
    for name, most in (limits or {}).items():
        resource.setrlimit(getattr(resource, name), (most, most))
    os.environ |= {"LASTGOOD_STATE_DIR": state, "LASTGOOD_KEEPER": "on", "LASTGOOD_KEEPER_LINGER": linger}
    if answer_s:
        client.ANSWER_LIMIT_S = line.ANSWER_LIMIT_S = line.START_LIMIT_S = answer_s
        client.Keeper.__init__.__defaults__ = (None, answer_s, 0.0)
        finding.find_keeper.__defaults__ = (answer_s,)
    rng = np.random.default_rng(7)
    weights, few = np.zeros(floats), np.zeros(10)
    weights.fill(0.0)  # its pages are there from the beginning
    state_of_all: dict[str, object] = {"weights": weights, "few": few, "rng": rng}
    settings = {"every": every, "keep": lastgood.Keep(last=2), **settings}
    run = lastgood.Run(state_of_all, job=job, **settings)
    session = run._session
    assert session is not None
    holds = [holds_at] if isinstance(holds_at, int) else holds_at
    with open(notes, "ab", buffering=0) as file:
        file.write(f"begun {run.step} {run.step} {run.step}\n".encode())
        for step in run.steps(total):
            file.write(f"step {step - 1} {session._taken_step} {session.saved_step}\n".encode())
            draw = rng.standard_normal(10)
            few += draw
            weights *= 0.9
            weights += draw[0]
            if step in holds:
                assert session._saver._background is not None
                session._saver._background.is_there()
                file.write(f"held {step - 1} {session._taken_step} {session.saved_step}\n".encode())
                while not (os.path.exists(go) or os.path.exists(f"{go}-{step}")):
                    time.sleep(0.005)
            time.sleep(pause_s)
            if step == eats_in:
                eat()
    run.close()
    Path(result).write_text(hashlib.sha256(weights.tobytes() + few.tobytes() + rng.bytes(32)).hexdigest())


def eat() -> None:
    eaten = []
    while True:
        eaten.append(np.ones(2**20))


def _note_commits(job: str) -> None:
    """Leave a note when the program has learned that a step is committed."""
    note_saved = Session._note_saved

    def noted(self: Session, saved: Any) -> None:
        lossyfs.leave_note(job, f"committed {saved.step}")
        note_saved(self, saved)

    Session._note_saved = noted  # type: ignore[method-assign]


def _do_without_keeper() -> None:
    def none(*arguments: object, **options: object) -> NoReturn:
        raise NoKeeperError("none in this test")

    line.find_keeper = none  # type: ignore[assignment]
    background.Background.is_there = lambda self: True  # type: ignore[method-assign]
