"""F1: SIGKILL at random moments. F2: SIGKILL inside a save, at each call. F8: SIGTERM and two seconds."""

import contextlib
import itertools
import os
import random
import signal
import time
from pathlib import Path

from nine_faults.lab import KILLED_AT, NEWEST, Cell, Lab, Started
from nine_faults.recorder import SAVE_EVERY
from nine_faults.syscalls import Point, Tracer, need_strace, open_gate, save_points, stand_at_gate
from nine_faults.trace import Life
from nine_faults.verdict import Outcome, Verdict, range_text, tally

LONG = 200
STEP_S = 0.02
AFTER_FIRST_SAVE_S = 0.3
"""A life gets past its first save, and is killed within this time after that: before, in or after its second."""
POINTS_WITH_LAUNCHER = 12
"""Where every start imports everything anew, and the points are the same as without the launcher."""
SLOW_STEP_S = 0.2
GRACE_S = 2.0


def random_kills(lab: Lab) -> Cell:
    """F1. Lives that are too short for a save make no progress with any system, so each gets past its first."""
    reference = lab.run_from_nothing(total=LONG)
    lab.clear()
    chance = random.Random(1)
    runs: list[Started] = []
    killed: set[int] = set()
    while len(killed) < lab.scale.kills:
        if not runs or not lab.system.is_launched:
            runs.append(lab.start(total=LONG, step_s=STEP_S))
        if not runs[-1].wait_for(lambda life: life.pid not in killed and _has_saved(life)):
            break
        time.sleep(chance.uniform(0.0, AFTER_FIRST_SAVE_S))
        pid = runs[-1].trace.read()[-1].pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        killed.add(pid)
        if not lab.system.is_launched:
            runs[-1].finish()
    else:
        if not lab.system.is_launched:
            runs.append(lab.start(total=LONG))
    outcome = runs[-1].finish()
    if outcome.code != 0:
        runs.append(lab.start(total=LONG))
        outcome = runs[-1].finish()
    return _long_job(reference, [life for run in runs for life in run.trace.lives], len(killed), outcome)


def _has_saved(life: Life) -> bool:
    return life.resumed is not None and life.last_step > (life.resumed // SAVE_EVERY + 1) * SAVE_EVERY


def _long_job(reference: Life, lives: list[Life], kills: int, outcome: Outcome) -> Cell:
    lost = [
        before.last_step - after.resumed for before, after in itertools.pairwise(lives) if after.resumed is not None
    ]
    losses = {step: loss for life in lives for step, loss in life.losses.items()}
    equal = sum(losses.get(step) == loss for step, loss in reference.losses.items())
    ends = f"{kills} kills; lost {range_text(lost) if lost else 'nothing'}"
    notes = [f"life {i}: resumed at {life.resumed}, last step {life.last_step}" for i, life in enumerate(lives, 1)]
    if outcome.final is None:
        return Cell(f"HARD after {ends}: does not start again (exit {outcome.code})", False, notes)
    is_same = outcome.final == reference.final
    bits = "bits equal" if is_same else f"bits DIFFER ({equal}/{LONG} losses equal)"
    return Cell(f"finished, {bits}; {ends}", is_same, notes)


def kills_in_save(lab: Lab) -> Cell:
    """F2. The save at step 50 of a job that has saved step 40."""
    need_strace()
    points = _undisturbed(lab)
    chosen = _spread(points, lab.scale.points or (POINTS_WITH_LAUNCHER if lab.system.is_launched else None))
    verdicts: list[Verdict] = []
    notes = [
        f"the save makes {len(points) - 1} calls that change something; with its end {len(chosen)} points were tried"
    ]
    for point in chosen:
        verdict = _kill_at(lab, point)
        if verdict is not None:
            verdicts.append(verdict)
        notes.append(f"{verdict or 'was not hit'}: {point}")
    if not verdicts:
        raise RuntimeError("no kill hit the save")
    return Cell(tally(verdicts), all(verdict.is_exact for verdict in verdicts), notes)


def _undisturbed(lab: Lab) -> list[Point]:
    lab.restore()
    gate = _make_gate(lab)
    started = lab.start(gate_at=NEWEST + SAVE_EVERY, gate=gate)
    try:
        tracer = Tracer(stand_at_gate(started), lab.root / "strace.txt")
        open_gate(gate)
        started.finish()
        tracer.close()
    finally:
        started.kill()
    return save_points(tracer.calls(), lab.work, started.trace.path)


def _kill_at(lab: Lab, point: Point) -> Verdict | None:
    """What the next start makes of it; None if the kill did not hit."""
    lab.restore()
    gate = _make_gate(lab)
    started = lab.start(gate_at=NEWEST + SAVE_EVERY, gate=gate)
    try:
        inject = f"inject={point.call}:signal=SIGKILL:when={point.occurrence}"
        tracer = Tracer(stand_at_gate(started), lab.root / "strace-kill.txt", "-e", inject)
        open_gate(gate)
        outcome = started.finish()
        tracer.close()
    finally:
        started.kill()
    if lab.system.is_launched:
        if len(started.trace.lives) < 2:
            return None
        return lab.judge([outcome] if outcome.code == 0 else [outcome, lab.start().finish()])
    return lab.judge(lab.settle()) if outcome.code == -signal.SIGKILL else None


def _make_gate(lab: Lab) -> Path:
    gate = lab.root / "gate"
    gate.unlink(missing_ok=True)
    os.mkfifo(gate)
    return gate


def _spread(points: list[Point], count: int | None) -> list[Point]:
    """The first, the last, and others at even distances between them."""
    if count is None or count >= len(points):
        return points
    return [points[round(i * (len(points) - 1) / (count - 1))] for i in range(count)]


def sigterm(lab: Lab) -> Cell:
    """F8. SIGTERM to the command in the middle of a step; SIGKILL if it still runs after the grace."""
    lab.restore()
    started = lab.start(step_s=SLOW_STEP_S)
    if not started.wait_for(lambda life: life.last_step >= KILLED_AT):
        started.kill()
        raise RuntimeError(f"the job did not come to step {KILLED_AT}: see {started.trace.path}")
    os.kill(started.process.pid, signal.SIGTERM)
    began = time.monotonic()
    code = started.process.wait(GRACE_S)
    took_s = time.monotonic() - began
    started.kill()
    last = started.trace.read()[-1].last_step
    tries = lab.settle()
    verdict = lab.judge(tries)
    lost = last - (tries[-1].resumed or 0)
    how = {None: "killed after 2 s", -signal.SIGTERM: "dies of it", 0: "exit 0"}.get(code, f"exit {code}")
    saved = "saved" if lost == 0 else "not saved"
    return Cell(
        f"{how}, {saved}; lost {lost}; {verdict}",
        lost == 0 and verdict.is_exact and code != 0,
        [f"ended after {took_s:.2f} s with {code}; last step {last}; then resumed at {tries[-1].resumed}"],
    )
