"""What a request to stop or save does at each kind of safe point, and whose the signals are when no loop runs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core import layout
from lastgood.store.attempts import claim_attempt, read_events
from lastgood.store.jobdir import create_job, open_job
from runtime.conftest import both_ways, names

pytestmark = both_ways

Start = Callable[..., lastgood.Run]
OURS = [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT]
RARELY = 1000


@pytest.fixture(autouse=True)
def _handlers_are_put_back() -> Any:
    before = {number: signal.getsignal(number) for number in OURS}
    yield
    after = {number: signal.getsignal(number) for number in OURS}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before


def ask(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)
    # The handler has run by the time a second call returns to Python code.
    os.getpid()


def stopped(run: lastgood.Run, body: Callable[[int], None], total: int = 9) -> int:
    """The code with which the loop leaves the program."""
    with pytest.raises(SystemExit) as end:
        for step in run.steps(total):
            body(step)
    assert isinstance(end.value.code, int)
    return end.value.code


def saved(path: Path) -> list[int]:
    return sorted(int(name.split("-")[0]) for name in names(path))


def events(path: Path, kind: str, attempt: int = 1) -> list[dict[str, Any]]:
    return [e.data for e in read_events(open_job(path), attempt) if e.kind == kind]


@pytest.mark.parametrize("is_launched", [False, True], ids=["alone", "launched"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_stop_signal_saves_the_step_and_leaves_the_job_to_the_next(
    number: signal.Signals,
    is_launched: bool,
    start: Start,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if is_launched:
        monkeypatch.setenv(layout.Env.JOB, str(path))
        monkeypatch.setenv(layout.Env.ATTEMPT, str(claim_attempt(create_job(path), "token").attempt))
        monkeypatch.setenv(layout.Env.LAUNCH, "token")
    w = np.zeros(1)

    def body(step: int) -> None:
        if step == 3:
            ask(number)
        w[:] = step

    code = stopped(start({"w": w}, every=RARELY), body)
    assert code == (130 if number == signal.SIGINT and not is_launched else 75)
    assert saved(path) == [3]
    assert f"stopped after step 3 ({number.name}); saved step 3; run again to continue" in capsys.readouterr().err
    assert events(path, "stopping") == [{"cause": number.name, "step": 3, "saved_step": 3}]
    # Nothing is held any more, and the next goes on behind that step.
    w[:] = 0
    run = start({"w": w}, every=RARELY)
    assert (run.step, w[0]) == (3, 3)
    assert list(run.steps(5)) == [4, 5]


def test_a_request_to_save_is_met_once_and_the_loop_goes_on(start: Start, path: Path) -> None:
    run = start({"w": np.zeros(1)}, every=RARELY, keep=lastgood.Keep(last=None))
    for step in run.steps(6):
        if step in (2, 4):
            ask(signal.SIGUSR2)
            ask(signal.SIGUSR2)
    assert saved(path) == [2, 4, 6]


def test_signals_are_the_programs_own_before_and_after_the_loop(start: Start) -> None:
    seen: list[int] = []

    def mine(number: int, frame: object) -> None:
        seen.append(number)

    for number in OURS:
        signal.signal(number, mine)
    run = start({"w": np.zeros(1)})
    assert {signal.getsignal(number) for number in OURS} == {mine}
    for step in run.steps(2):
        assert mine not in {signal.getsignal(number) for number in OURS}
        if step == 1:
            ask(signal.SIGUSR2)
    assert {signal.getsignal(number) for number in OURS} == {mine}
    for step in run.steps(9):
        if step == 4:
            break
    assert {signal.getsignal(number) for number in OURS} == {mine}
    with pytest.raises(KeyError):
        for _ in run.steps(9):
            raise KeyError
    assert {signal.getsignal(number) for number in OURS} == {mine}
    assert seen == [signal.SIGUSR2]
    for number in OURS:
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)


def test_a_handler_that_the_program_installs_inside_the_loop_stays_its_own(start: Start) -> None:
    def mine(number: int, frame: object) -> None:
        return

    before = signal.getsignal(signal.SIGUSR1)
    for _ in start({"w": np.zeros(1)}).steps(1):
        signal.signal(signal.SIGUSR1, mine)
    assert signal.getsignal(signal.SIGUSR1) is mine
    signal.signal(signal.SIGUSR1, before)


def test_an_interrupt_that_is_ignored_stays_ignored_and_a_stop_request_does_not(start: Start, path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, signal.SIG_IGN)

    def body(step: int) -> None:
        ask(signal.SIGINT if step < 3 else signal.SIGTERM)

    assert stopped(start({"w": np.zeros(1)}, every=RARELY), body) == 75
    assert saved(path) == [3]
    assert {signal.getsignal(number) for number in before} == {signal.SIG_IGN}
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_safe_point_inside_a_step_does_not_stop_there(start: Start, path: Path) -> None:
    w, passed = np.zeros(1), []

    def body(step: int) -> None:
        w[:] += 1
        if step == 2:
            ask()
        run.safe_point("half way")
        passed.append(step)
        w[:] += 1

    run = start({"w": w}, every=RARELY)
    assert stopped(run, body) == 75
    assert (passed, saved(path)) == ([1, 2], [2])
    start({"w": w}, every=RARELY)
    assert w[0] == 4


def test_a_step_that_says_it_is_done_is_not_done_again(start: Start, path: Path) -> None:
    w, evaluated = np.zeros(1), []

    def body(step: int) -> None:
        w[:] += 1
        if step == 2:
            ask()
        run.safe_point("evaluation", step_is_done=True)
        evaluated.append(step)

    run = start({"w": w}, every=RARELY)
    assert stopped(run, body) == 75
    assert (evaluated, saved(path)) == ([1], [2])
    run = start({"w": w}, every=RARELY)
    assert (run.step, w[0]) == (2, 2)
    for step in run.steps(3):
        body(step)
    assert (w[0], evaluated) == (3, [1, 3])


def test_an_evaluation_after_an_epoch_stops_there_and_is_done_once_after_the_resume(start: Start, path: Path) -> None:
    w = np.zeros(1)
    done: list[str] = []

    def train(run: lastgood.Run, asks_in: int) -> None:
        for epoch in run.epochs(2):
            for batch in run.batches([10, 20]):
                w[:] += batch
                done.append(f"{epoch}:{batch}")
            if epoch == asks_in:
                ask()
            run.safe_point("evaluation")
            w[:] *= 2
            done.append(f"{epoch}:evaluation")

    train(start({"w": w}, every=RARELY, job=path.with_name("undisturbed")), 0)
    expected, everything = w[0], list(done)
    done.clear()
    w[:] = 0
    with pytest.raises(SystemExit) as end:
        train(start({"w": w}, every=RARELY), 1)
    assert end.value.code == 75
    assert (saved(path), done) == ([2], ["1:10", "1:20"])
    w[:] = -1
    train(start({"w": w}, every=RARELY), 0)
    assert (w[0], done) == (expected, everything)


@pytest.mark.parametrize("variable", [layout.Env.DEADLINE, "SLURM_JOB_END_TIME"])
def test_a_time_limit_that_is_too_near_for_a_step_and_a_save_stops_the_loop(
    variable: str, start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [time.time()]
    monkeypatch.setenv(variable, str(int(now[0]) + 5000))
    run = start({"w": np.zeros(1)}, every=RARELY)
    run._session._watch._wall_clock = lambda: now[0]  # type: ignore[union-attr]

    def body(step: int) -> None:
        now[0] += 1000

    assert stopped(run, body) == 75
    # At 4000 of 5000 seconds there was time; at 5000 there would be none.
    assert saved(path) == [5]
    assert "(time limit); saved step 5" in capsys.readouterr().err


@pytest.mark.slow
def test_a_launcher_that_is_gone_already_stops_the_loop_before_its_first_step(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    monkeypatch.setenv(layout.Env.LAUNCHER_PID, str(gone.pid))
    done: list[int] = []
    assert stopped(start({"w": np.zeros(1)}), done.append) == 75
    assert done == []
    assert "stopped after step 0 (launcher gone); nothing was saved yet" in capsys.readouterr().err


# How a program ends when something is raised inside `with lastgood.Run(...)` --------------------------------------

PROGRAM = """
import sys
import numpy as np
import lastgood
with lastgood.Run({"w": np.zeros(1)}, job=sys.argv[1], every=1) as run:
    for step in run.steps(5):
        if step == 3:
            BODY
"""


def run_program(path: Path, body: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.replace("BODY", body), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.slow
def test_an_exception_inside_a_with_block_is_shown_with_our_one_line_after_it(path: Path) -> None:
    ended = run_program(path, 'raise KeyError("of the program")')
    assert ended.returncode == 1
    lines = ended.stderr.strip().split("\n")
    at = lines.index("KeyError: 'of the program'")
    assert "Traceback (most recent call last):" in lines[:at]
    assert lines[at + 1 :] == [
        "lastgood: the program raised KeyError after step 2; the last good step is 2; run again to continue from there"
    ]
    assert [(e["type"], e["step"]) for e in events(path, "exception")] == [("KeyError", 2)]


@pytest.mark.slow
def test_an_error_of_ours_inside_a_with_block_is_a_message_with_its_code(path: Path) -> None:
    ended = run_program(path, "run.log(bad=object())")
    assert ended.returncode == 68, ended.stderr
    assert "Traceback" not in ended.stderr and "run.log(bad=...)" in ended.stderr


@pytest.mark.slow
def test_an_exit_inside_a_with_block_is_the_programs_own(path: Path) -> None:
    ended = run_program(path, "sys.exit(9)")
    assert ended.returncode == 9
    assert "raised" not in ended.stderr


def test_an_exception_that_is_caught_outside_a_with_block_leaves_no_hook_that_speaks_of_another(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lambda *error: None  # noqa: E731
    monkeypatch.setattr(sys, "excepthook", before)
    for _ in range(3):
        with pytest.raises(KeyError), start({"w": np.zeros(1)}) as run:
            for _ in run.steps(2):
                raise KeyError
    capsys.readouterr()
    sys.excepthook(ValueError, ValueError("another"), None)
    assert capsys.readouterr().err == ""
    # However many were caught, one hook is left.
    start({"w": np.zeros(1)}).close()
    assert sys.excepthook is before


def test_a_hook_that_another_library_puts_before_ours_is_no_endless_circle(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: seen.append(error))
    with pytest.raises(KeyError) as caught, start({"w": np.zeros(1)}) as run:
        ours = sys.excepthook

        def theirs(*error: Any) -> None:
            ours(*error)

        monkeypatch.setattr(sys, "excepthook", theirs)
        for _ in run.steps(2):
            raise KeyError
    sys.excepthook(KeyError, caught.value, None)
    assert seen == [caught.value]
    assert "the program raised KeyError after step 0; nothing was saved yet" in capsys.readouterr().err
