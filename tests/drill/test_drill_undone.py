"""Nothing that a drill does outlives it: after a signal, and after an exception in the middle of a fault."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from drill.drills import HERE, directory_with, start, words
from lastgood.core.signals import SIGSTOP
from lastgood.drill.fault import Call, Fault, Injected, Options, Scene
from lastgood.drill.journal import FileJournal, read_journal
from lastgood.drill.runner import Order, Runner
from lastgood.drill.spec import parse_spec
from lastgood.trial.deferring import EndedError, deferred_signals, ending_by_exception
from lastgood.trial.place import make_place
from lastgood.trial.processes import is_alive
from lastgood.trial.target import Target, Way
from launch.conftest import wait_for

pytestmark = pytest.mark.slow


def living_in(directory: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(directory):
                found.append(process)
        except psutil.Error:
            continue
    return found


def stands_still(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_drill_that_is_told_to_end_undoes_all(tmp_path: Path, number: int, code: int) -> None:
    drill = start(
        HERE / "plain.py", tmp_path, "--quick", "--step-pattern", r"step (\d+)", "--fault", "freeze,limit=1h@step=3",
        "--", sys.executable, "plain.py", "good", 5000,
    )  # fmt: skip
    try:
        journal = tmp_path / "drill" / "drill.jsonl"
        end = time.monotonic() + 60
        while not any(event.kind == "injected" for event in (read_journal(journal) if journal.exists() else [])):
            assert drill.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        there = living_in(tmp_path / "drill")
        assert any(map(stands_still, there))
        drill.send_signal(number)
        _, err = drill.communicate(timeout=60)
    finally:
        drill.kill()
        drill.communicate()
    assert (drill.returncode, "Traceback" in err) == (code, False)
    assert "all faults are undone, nothing of the job runs" in err
    assert living_in(tmp_path / "drill") == []
    assert "healed" in [event.kind for event in read_journal(journal)]


def test_a_drill_that_is_told_to_end_leaves_no_directory_that_nobody_has_asked_for(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    with subprocess.Popen(
        words("--quick", "--again", "--step-pattern", r"step (\d+)", "--", sys.executable, "plain.py", "good", 5000),
        cwd=directory_with(HERE / "plain.py", tmp_path),
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.PIPE,
        text=True,
    ) as drill:
        wait_for(lambda: any((tmp_path / "temporary").glob("*/drill/output.txt")), "the job")
        drill.send_signal(signal.SIGTERM)
        _, err = drill.communicate(timeout=60)
    assert (drill.returncode, "all faults are undone" in err) == (143, True)
    assert list((tmp_path / "temporary").iterdir()) == []


class BrokenFault(Fault):
    """Stops its victim, and fails before it can say so."""

    name = "broken"
    healed = 0

    def __init__(self) -> None:
        super().__init__(Options(self.name, {}))
        self.victim = 0

    def inject(self, scene: Scene) -> Injected:
        self.victim = scene.trial.ranks()[0].pid
        os.kill(self.victim, SIGSTOP)
        raise RuntimeError("in the middle")

    def heal(self, scene: Scene) -> None:
        assert is_alive(self.victim), "it is let go before the job is ended"
        self.healed += 1


def test_a_fault_that_raises_is_healed_and_its_job_ended(tmp_path: Path) -> None:
    target = Target(
        (sys.executable, "plain.py", "good", "5000"), HERE, step_pattern=r"step (\d+)", leave_out=("test_*",)
    )
    fault, spec = BrokenFault(), parse_spec("kill-rank@step=2")
    journal = FileJournal(tmp_path)
    runner = Runner(
        Call(target, Way.AGAIN),
        make_place(tmp_path, "drill", target),
        [(spec, fault)],
        Order(60),
        journal,
        lambda _: None,
    )
    with pytest.raises(RuntimeError, match="in the middle"):
        runner.run()
    journal.close()
    assert fault.healed == 1
    assert living_in(tmp_path) == []
    assert not is_alive(fault.victim)
    kinds = [event.kind for event in read_journal(tmp_path / "drill.jsonl")]
    assert (kinds.count("injecting"), kinds.count("injected"), kinds.count("healed")) == (1, 0, 1)


class StubbornFault(BrokenFault):
    """Is caused, and cannot be undone."""

    def inject(self, scene: Scene) -> Injected:
        return Injected(time.time(), "nothing")

    def heal(self, scene: Scene) -> None:
        self.healed += 1
        raise RuntimeError("not to be undone")


def test_one_that_cannot_be_healed_keeps_no_other_from_it(tmp_path: Path) -> None:
    target = Target((sys.executable, "plain.py", "good", "20"), HERE, step_pattern=r"step (\d+)", leave_out=("test_*",))
    faults = [StubbornFault(), StubbornFault(), StubbornFault()]
    plan = [(parse_spec(f"kill-rank@step={5 * i}"), fault) for i, fault in enumerate(faults, 1)]
    journal = FileJournal(tmp_path)
    place = make_place(tmp_path, "drill", target)
    with pytest.raises(RuntimeError, match="not to be undone"):
        Runner(Call(target, Way.AGAIN), place, plan, Order(60), journal, lambda _: None).run()
    journal.close()
    assert [fault.healed for fault in faults] == [1, 1, 1]
    assert living_in(tmp_path) == []


def test_signals_wait_while_faults_are_undone() -> None:
    order: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: order.append("signal"))
    try:
        with deferred_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            order.append("undone")
        assert order == ["undone", "signal"]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def handlers() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("handlers")
def test_a_second_signal_does_not_end_what_the_first_has_begun_to_undo(second: signal.Signals) -> None:
    now, undone = [100.0], []
    with ending_by_exception(lambda: now[0]):
        with pytest.raises(KeyboardInterrupt):
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                now[0] += 0.9
                signal.raise_signal(second)
                undone.append("all")
        assert undone == ["all"]
        # The first may have got lost: who asks again later is heard.
        now[0] += 0.2
        with pytest.raises(KeyboardInterrupt if second == signal.SIGINT else EndedError):
            signal.raise_signal(second)


@pytest.mark.usefixtures("handlers")
def test_ctrl_c_that_a_shell_ignores_for_its_background_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ending_by_exception():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_journal_line_is_whole_and_a_torn_one_is_passed_over(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.note("injected", number=1, paths=["/a\udcff"])
    journal.close()
    with journal.path.open("ab") as file:
        file.write(b'{"kind": "heal')
    assert [event.kind for event in read_journal(journal.path)] == ["injected"]
