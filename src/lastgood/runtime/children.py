"""Processes that are forked from a rank: they hold copies of its signal handlers, lock and exception hook, and
none of these is theirs."""

import os
import signal
import threading
import weakref
from typing import Protocol

from lastgood.runtime.signals import SAVE_SIGNALS, STOP_SIGNALS


class Inherited(Protocol):
    def disown(self) -> None:
        """Runs in a child right after the fork: let go of the copies, leave everything shared as it is."""


_inherited: "weakref.WeakSet[Inherited]" = weakref.WeakSet()
_is_registered = False
_masks = threading.local()


def disown_in_children(thing: Inherited) -> None:
    """From now on every child that Python forks calls `thing.disown()` first, as long as `thing` lives.

    Commands that are started with `subprocess` need nothing: handlers and descriptors end with exec.
    """
    global _is_registered
    _inherited.add(thing)
    if not _is_registered:
        _is_registered = True
        os.register_at_fork(before=_hold_signals, after_in_parent=_let_signals_go, after_in_child=_disown_all)


def _hold_signals() -> None:
    # One that reached the child before it has given up our handlers would be taken for a request to the job,
    # and lost.
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {*STOP_SIGNALS, *SAVE_SIGNALS})


def _let_signals_go() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _disown_all() -> None:
    for thing in list(_inherited):
        thing.disown()
    _inherited.clear()
    _let_signals_go()
