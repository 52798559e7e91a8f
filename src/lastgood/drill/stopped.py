"""Processes that stand still for a moment, so that what is seen of them is still true when the fault hits them."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil

from lastgood.core.signals import SIGCONT, SIGSTOP

_STOP_LIMIT_S = 1.0


@contextmanager
def stopped(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """They stand still inside, and those that are left go on afterwards, whatever happens."""
    try:
        for process in processes:
            with suppress(psutil.Error):
                process.send_signal(SIGSTOP)
        _await_stopped(processes)
        yield
    finally:
        let_go(processes)


def let_go(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(SIGCONT)


def _await_stopped(processes: Sequence[psutil.Process]) -> None:
    """The kernel stops a process when it next comes by, which takes a moment for one that computes or waits for a disk."""
    end = time.monotonic() + _STOP_LIMIT_S
    waiting = list(processes)
    while waiting and time.monotonic() < end:
        waiting = [process for process in waiting if _is_running(process)]
        if waiting:
            time.sleep(0.0005)


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False
