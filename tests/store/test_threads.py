"""An exception between any two instructions, as a signal handler raises it, leaves no thread that goes on."""

import gc
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lastgood.store import threads
from lastgood.store.threads import Beside, Latch, Team, each


class Interrupted(BaseException):
    pass


class Work:
    """Notes which items are being worked on, and which are done."""

    def __init__(self) -> None:
        self.now: list[int] = []
        self.done: list[int] = []

    def __call__(self, item: int) -> None:
        self.now.append(item)
        time.sleep(0.0005)
        self.done.append(item)
        self.now.remove(item)


@contextmanager
def raising_at(count: int) -> Iterator[list[Any]]:
    """Raise at the given instruction of the module under test, in this thread: how many there were, and where."""
    seen: list[Any] = [0]

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != threads.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen[0] += 1
            if seen[0] == count:
                seen.append(frame.f_code.co_qualname)
                raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(None)


def test_each_item_is_worked_on_once_by_several_threads() -> None:
    work = Work()
    each(range(100), work, 4, "test")
    assert sorted(work.done) == list(range(100)) and not work.now


def test_nothing_to_do_is_done_at_once() -> None:
    each([], Work(), 4, "test")


def test_the_first_error_is_raised_and_ends_it() -> None:
    def fail(item: int) -> None:
        seen.append(item)
        if item == 3:
            raise KeyError(item)

    seen: list[int] = []
    with pytest.raises(KeyError):
        each(range(10_000_000), fail, 2, "test")
    assert {0, 1, 2, 3} <= set(seen)


def test_a_call_that_returns_true_ends_it_and_none_before_it_is_left_out() -> None:
    for threads_count in (1, 2, 4):
        seen: list[int] = []

        def look(item: int, seen: list[int] = seen) -> bool:
            seen.append(item)
            return item == 50

        each(range(10_000_000), look, threads_count, "test")
        assert set(range(51)) <= set(seen)


def test_the_threads_bear_the_name_that_was_given() -> None:
    found: list[str] = []
    each([0], lambda _: found.append(Path("/proc/thread-self/comm").read_text().strip()), 1, "lastgood-test")
    assert found == ["lastgood-test"]


def test_an_exception_at_any_instruction_leaves_no_thread_of_a_team() -> None:
    # Only at the very entry of __exit__ nothing can be done about it.
    count, outcomes, left = 0, set(), []
    while True:
        count += 1
        work = Work()
        with raising_at(count) as seen:
            try:
                each(range(3), work, 2, "test")
                outcome = "done"
            except Interrupted:
                outcome = "interrupted"
        outcomes.add(outcome)
        if outcome == "done" and seen[0] < count:
            break
        begun = len(work.done)
        time.sleep(0.002)
        if work.now or len(work.done) != begun:
            left.append(seen[1])
    assert count > 100 and outcomes == {"done", "interrupted"}
    assert set(left) <= {"Team.__exit__"} and len(left) < 8


def test_an_exception_at_any_instruction_leaves_a_thread_that_can_be_joined() -> None:
    count = 0
    while True:
        count += 1
        done: list[int] = []
        beside: Beside | None = None
        with raising_at(count) as seen:
            try:
                beside = Beside(lambda done=done: (time.sleep(0.001), done.append(1)), "test")  # type: ignore[misc]
                beside.start()
                beside.join()
            except Interrupted:
                pass
        if seen[0] < count:
            break
        if beside is not None:
            # Its caller waits again, and may be interrupted again.
            with raising_at(1 + count % 40), suppress(Interrupted):
                beside.join()
            beside.join()
            before = list(done)
            time.sleep(0.002)
            assert done == before, f"at instruction {count}: it was over, and went on"
    assert count > 30 and done == [1]


def test_what_the_work_refers_to_is_free_when_it_is_over() -> None:
    gc.disable()
    try:
        thing = Work()
        gone = weakref.ref(thing)
        each(range(3), partial(Work.__call__, thing), 2, "test")
        beside = Beside(partial(Work.__call__, thing, 1), "test")
        beside.start()
        beside.join()
        del thing
        assert gone() is None
    finally:
        gc.enable()


def test_a_forked_child_does_not_wait_for_the_threads_of_its_parent() -> None:
    may_end = Latch()
    beside = Beside(may_end.wait, "test")
    beside.start()
    pid = os.fork()
    if pid == 0:
        signal.alarm(100)
        beside.join()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    may_end.open()
    beside.join()


@pytest.fixture
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads._thread, "start_new_thread", refuse)


def test_where_no_thread_can_be_had_the_caller_does_the_work(no_more_threads: None) -> None:
    work = Work()
    each(range(10), work, 4, "test")
    assert work.done == list(range(10))


def test_where_only_some_threads_can_be_had_these_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [None]

    def start(*arguments: Any, real: Any = threads._thread.start_new_thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        real(*arguments)

    monkeypatch.setattr(threads._thread, "start_new_thread", start)
    work = Work()
    each(range(10), work, 4, "test")
    assert work.done == list(range(10)) and not left


def test_a_thread_that_cannot_be_had_is_not_waited_for(no_more_threads: None) -> None:
    beside = Beside(lambda: None, "test")
    assert not beside.start()
    beside.join()
    beside.join()


def test_a_thread_that_was_called_off_does_not_begin() -> None:
    done: list[int] = []
    beside = Beside(lambda: done.append(1), "test")
    assert beside.call_off()
    beside.start()
    beside.join()
    assert not done


def test_one_that_is_called_off_too_late_is_waited_for() -> None:
    begun, may_end = Latch(), Latch()
    beside = Beside(lambda: (begun.open(), may_end.wait()), "test")  # type: ignore[arg-type, func-returns-value]
    beside.start()
    begun.wait()
    assert not beside.call_off()
    may_end.open()
    beside.join()


def test_a_latch_wakes_all_that_wait_and_keeps_its_limit() -> None:
    latch, woken = Latch(), []
    assert not latch.wait(0.001)
    waiting = [Beside(lambda: woken.append(latch.wait()), "test") for _ in range(5)]
    for one in waiting:
        one.start()
    latch.open()
    latch.open()
    for one in waiting:
        one.join()
    assert woken == [True] * 5 and latch.wait() and latch.wait(0.0)


def test_a_team_that_is_left_takes_no_more_items() -> None:
    work = Work()
    with pytest.raises(Interrupted), Team(range(10_000_000), work, 2, "test") as team:
        team.start()
        raise Interrupted
    assert not work.now and len(work.done) < 1_000_000


def test_a_signal_handler_that_raises_ends_the_wait_with_its_own_exception() -> None:
    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for at in range(1, 60):
            work = Work()
            with pytest.raises(Interrupted):
                # Here, as on a busy machine it may be over before the next line.
                signal.setitimer(signal.ITIMER_REAL, at * 0.0001)
                while True:
                    each(range(4), work, 2, "test")
            assert not work.now
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
