"""DataLoader's worker processes live through the signals that ask their job to save and stop.

Schedulers and launchers send these to every process of a job. A worker that dies of one makes the DataLoader
raise in the middle of a step, before the loop could reach its safe point; workers end with their loader anyway.

Holds for workers that are forked, which is Linux's default up to Python 3.13.
"""

import multiprocessing
import os
import signal
import threading
from multiprocessing import util

from lastgood.runtime.signals import SAVE_SIGNALS, STOP_SIGNALS

_MODULES = ("torch.utils.data._utils.worker", "torchdata.stateful_dataloader.worker")


class _Hook:
    """What multiprocessing remembers its callback by."""


_hook = _Hook()
_is_registered = False


def shield_workers() -> None:
    """From now on workers ignore these signals, unless their parent sends SIGTERM to end them."""
    global _is_registered
    if not _is_registered:
        _is_registered = True
        util.register_after_fork(_hook, _after_fork)


def _after_fork(hook: _Hook) -> None:
    target = getattr(multiprocessing.current_process(), "_target", None)
    if getattr(target, "__module__", "") not in _MODULES:
        return
    # Blocked rather than ignored: the worker installs handlers of its own later, and those would be called.
    numbers = {*STOP_SIGNALS, *SAVE_SIGNALS}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    threading.Thread(target=_end_for_parent, args=(os.getppid(), numbers), daemon=True, name="lastgood-signals").start()


def _end_for_parent(parent: int, numbers: set[signal.Signals]) -> None:
    while True:
        info = signal.sigwaitinfo(numbers)
        if info.si_signo == signal.SIGTERM and info.si_pid == parent:
            os._exit(0)
