"""Programs that are asked to stop or save, or that end in some way of their own. See runtime.zygote."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import torch

import lastgood


def say(text: object) -> None:
    print(text, flush=True)


def wait_until_asked(run: lastgood.Run, limit_s: float = 180.0) -> None:
    """Sits in a step's body until a signal has raised its flag."""
    flags = run._session._signals  # type: ignore[union-attr]
    end = time.monotonic() + limit_s
    while not flags.stop_signal and not flags.is_save_asked and time.monotonic() < end:
        time.sleep(0.002)


def asked_in_step(job: str, ready_at: int = 3, total: int = 6, own_handler: bool = False) -> None:
    if own_handler:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
            signal.signal(number, lambda n, _: say(f"own handler {n}"))
    x = np.zeros(2)
    run = lastgood.Run({"x": x}, job=job, every=1000)
    for step in run.steps(total):
        x += step
        if step == ready_at:
            say("ready")
            wait_until_asked(run)
        x += 0.5
    say("done")


def asked_in_evaluation(job: str, with_safe_point: bool = True) -> None:
    run = lastgood.Run({"x": np.zeros(1)}, job=job, every=1000)
    for _ in run.epochs(2):
        for _batch in run.batches(range(3)):
            pass
        say("ready")
        wait_until_asked(run)
        if with_safe_point:
            run.safe_point("evaluation")
            say("still here")
    say("done")


def asked_while_saving(job: str) -> None:
    def slow() -> int:
        if run.step == 2:
            say("ready")
            wait_until_asked(run)
        return run.step

    run = lastgood.Run.__new__(lastgood.Run)
    run.step = 0
    run.__init__({"slow": (slow, lambda value: None)}, job=job, every=2)  # type: ignore[misc]
    for _ in run.steps(10):
        pass


def impatient(job: str) -> None:
    # A handler that a program has is called, too: two signals that come before Python has seen the first are one.
    signal.signal(signal.SIGINT, lambda *_: say("asked"))
    run = lastgood.Run({}, job=job, every=1000)
    for step in run.steps(5):
        if step == 2:
            say("ready")
            time.sleep(600)


def outside(job: str, when: str) -> None:
    run = lastgood.Run({"x": np.zeros(1)}, job=job, every=1)
    if when == "before":
        say("ready")
        time.sleep(60)
    try:
        for step in run.steps(4):
            if when == "break" and step == 3:
                break
            if when == "exception" and step == 3:
                raise KeyError
    except KeyError:
        pass
    say("ready")
    time.sleep(60)


def elsewhere(job: str) -> None:
    """The loop runs in a thread that is not the main one."""

    def work() -> None:
        x = np.zeros(1)
        run = lastgood.Run({"x": x}, job=job, every=2)
        for _ in run.steps(4):
            x += 1

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def with_deadline(job: str, seconds: float, variable: str = "LASTGOOD_DEADLINE") -> None:
    os.environ[variable] = str(time.time() + seconds)
    x = np.zeros(1)
    run = lastgood.Run({"x": x}, job=job, every=1000)
    for _ in run.steps(1000000):
        x += 1
        time.sleep(0.01)


def launched(job: str, launcher_pid: int, heartbeats: str, total: int = 100_000) -> None:
    os.environ |= {"LASTGOOD_LAUNCHER_PID": str(launcher_pid), "LASTGOOD_HEARTBEATS": heartbeats}
    x = np.zeros(1)
    run = lastgood.Run({"x": x}, job=job, every=1_000_000)
    for step in run.steps(total):
        x += 1
        if step == 2:
            say("ready")
        time.sleep(0.01)
    say("done")


def raises(job: str, what: str) -> None:
    x = np.zeros(1)
    run = lastgood.Run({"x": x}, job=job, every=2)
    for step in run.steps(5):
        x += 1
        if step == 4:
            if what == "user":
                raise KeyError("of the program")
            if what == "ours":
                run.log(bad=object())
            if what == "exit":
                sys.exit(9)


def without_stderr(job: str) -> None:
    sys.stderr = None  # type: ignore[assignment]
    x = np.zeros(1)
    run = lastgood.Run({"x": x}, job=job, every=2)
    for _ in run.steps(3):
        x += 1


def helpers(job: str, kind: str) -> None:
    """A step forks a helper, which is ended with SIGTERM; it has no part in the job."""
    x = np.zeros(1)
    run = lastgood.Run({"x": x}, job=job, every=1)
    for step in run.steps(3):
        x += 1
        if step == 2 and kind == "process":
            import multiprocessing

            helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
            helper.start()
            # At once: it may not have run a single line yet.
            helper.terminate()
            helper.join(180)
            say(f"helper {helper.exitcode}")
        if step == 2 and kind == "exits":
            pid = os.fork()
            if pid == 0:
                sys.exit(3)
            say(f"helper {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")
        if step == 2 and kind == "raises":
            pid = os.fork()
            if pid == 0:
                raise KeyError("of the helper")
            say(f"helper {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")
        if step == 2 and kind == "command":
            say(f"helper {subprocess.run(['sh', '-c', 'exit 4'], check=False).returncode}")
        if step == 2 and kind == "outlives":
            if os.fork() == 0:
                say(f"child {os.getpid()}")
                time.sleep(60)
                os._exit(0)
            say("ready")
            time.sleep(60)


class Slow(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 100000

    def __getitem__(self, index: int) -> float:
        time.sleep(0.002)
        return float(index)


def with_workers(job: str, is_persistent: bool = False) -> None:
    """Workers of two loaders: of the one that is read, and of one for evaluation that lives on."""
    loaders = [
        torch.utils.data.DataLoader(Slow(), batch_size=4, num_workers=2, persistent_workers=persistent)
        for persistent in (is_persistent, True)
    ]
    x = torch.zeros(1)
    run = lastgood.Run({"x": x}, job=job, every=100000)
    kept = iter(loaders[1])
    next(kept)
    for _ in run.epochs(1):
        for batch in run.batches(loaders[0]):
            x += batch.sum()
            if run.step == 2:
                say("ready")
