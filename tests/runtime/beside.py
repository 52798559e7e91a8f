"""Programs that do unusual things beside a keeper. See runtime.zygote."""

import os
import random
import signal
import threading
from typing import Any

import numpy as np

import lastgood
from runtime.endings import say


def holds() -> str:
    """How many pieces of shared memory, and connections, this process has open."""
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue
    with open("/proc/self/maps") as maps:
        mapped = maps.read().count("memfd:lastgood")
    return f"{sum('memfd:lastgood' in n for n in names)} {mapped} {sum(n.startswith('socket:') for n in names)}"


def forks(job: str) -> None:
    """A child that is forked after a save says what it holds, in its first moment and after a while."""
    x = np.zeros(100_000)
    run = lastgood.Run({"x": x}, job=job, every=1)
    for step in run.steps(4):
        x += 1
        if step == 3:
            say(f"parent {holds()}")
            pid = os.fork()
            if pid == 0:
                say(f"child {holds()}")
                # The addresses of what it has let go of are used for something else, and must stay so.
                more = [np.full(1_000_000, float(i)) for i in range(20)]
                del run, x
                say(f"child {all((one == i).all() for i, one in enumerate(more))} {holds()}")
                os._exit(0)
            say(f"ended {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")
    say("done")


def runs_again_and_again(job: str, times: int = 15) -> None:
    """Several Runs in one process, one after the other."""
    x = np.zeros(1000)
    for turn in range(times):
        with lastgood.Run({"x": x}, job=job, every=1) as run:
            for _ in run.steps(2 * (turn + 1)):
                x += 1
    say(f"x {x[0]}")


def runs_of_two_jobs(job: str) -> None:
    x, y = np.zeros(1000), np.zeros(1000)
    with lastgood.Run({"x": x}, job=job + "-x", every=1) as one, lastgood.Run({"y": y}, job=job + "-y", every=1) as two:
        for _, _ in zip(one.steps(5), two.steps(5), strict=True):
            x += 1
            y += 2
    say(f"{x[0]} {y[0]}")


def in_a_thread(job: str) -> None:
    def work() -> None:
        x = np.zeros(1000)
        with lastgood.Run({"x": x}, job=job, every=2) as run:
            for _ in run.steps(10):
                x += 1

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    say("done")


class Interrupted(Exception):
    pass


def interrupted(job: str, times: int = 150) -> None:
    """Exceptions from a signal handler at random moments, many of them in the middle of a save. The loop goes on."""
    source = random.Random(3)

    def raise_it(*_: Any) -> None:
        raise Interrupted

    signal.signal(signal.SIGALRM, raise_it)
    x = np.zeros(200_000)
    run = lastgood.Run({"x": x}, job=job, every=1, keep=lastgood.Keep(last=3), rank_limit="100s")
    count = 0
    while count < times:
        try:
            # A step whose body is left is done again: it must not have been counted, nor half done.
            for step in run.steps(1_000_000):
                signal.setitimer(signal.ITIMER_REAL, 0)
                x[:] = step
                signal.setitimer(signal.ITIMER_REAL, 0.00001 + 0.004 * source.random())
        except Interrupted:
            count += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    run.finish()
    run.close()
    say(f"finished {run.step} {count}")
