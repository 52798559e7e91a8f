"""Audit files in several processes, where there are many. The results are in the order of the files."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence

from lastgood.audit.discovery import Candidate
from lastgood.audit.finding import Audited, Problem
from lastgood.audit.source import Source

MANY_FILES = 200
"""From here on, starting further processes pays."""
_MOST_PROCESSES = 8
_AT_ONCE = 16

One = tuple[Candidate, Source | Problem | None]
Auditor = Callable[[Candidate, Source | Problem | None], Audited]

_auditors: list[Auditor] = []
"""In a worker: its own."""


def for_each(files: Sequence[One], auditor: Auditor) -> Iterator[Audited]:
    """A file on which a process ends (a parser is no Python) is named, and the others are audited."""
    processes = min(len(os.sched_getaffinity(0)), _MOST_PROCESSES)
    if len(files) < MANY_FILES or processes < 2:
        for candidate, source in files:
            yield auditor(candidate, source)
        return
    from concurrent.futures.process import BrokenProcessPool

    done = 0
    try:
        for audited in _in_pool(files, auditor, processes, _AT_ONCE):
            done += 1
            yield audited
    except BrokenProcessPool:
        for one in files[done:]:
            yield from _alone(one, auditor)


def _alone(one: One, auditor: Auditor) -> Iterator[Audited]:
    from concurrent.futures.process import BrokenProcessPool

    try:
        yield from list(_in_pool([one], auditor, 1, 1))
    except BrokenProcessPool:
        path = one[0].path
        message = (
            "a process ended while it read this file, which is a defect of lastgood, or memory ran out; not audited"
        )
        yield Audited(path=path, findings=[], problems=[Problem(path=path, message=message)])


def _in_pool(files: Sequence[One], auditor: Auditor, processes: int, at_once: int) -> Iterator[Audited]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Forked, so that each has the rules that are loaded; this process has no threads of its own.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(processes, context, _begin_worker, (auditor,)) as pool:
        yield from pool.map(_audit_in_worker, files, chunksize=at_once)


def _begin_worker(auditor: Auditor) -> None:
    # Ctrl-C is for the process that the user started; it ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _auditors.append(auditor)


def _audit_in_worker(one: One) -> Audited:
    return _auditors[-1](*one)
