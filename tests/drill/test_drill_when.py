"""Whether a fault's moment has come, and signs of a phase in a program that is not ours."""

import threading
from pathlib import Path

import psutil
import pytest

from descriptors import open_descriptors
from lastgood.drill.checkpoints import open_files
from lastgood.drill.fault import Consequence
from lastgood.drill.inotify import DirectoryEvents
from lastgood.drill.measure import Watch
from lastgood.drill.spec import parse_when
from lastgood.drill.when import is_due, is_of_pattern
from lastgood.trial.trial import Sight


def sight(at: float, step: int | None = None, attempt: int = 1, from_step: int | None = None) -> Sight:
    return Sight(at, 1, attempt, step, None, "step", True, from_step)


def due(when: str, now: Sight, *, before: Watch | None = None, first_saved_at: float | None = None) -> bool:
    return is_due(parse_when(when), now, began=100.0, before=before, first_saved_at=first_saved_at)


def fault_at(at: float, *after: Sight) -> Watch:
    watch = Watch(sight(at - 1, 50), Consequence.RESTART)
    watch.struck(at)
    for one in after:
        watch.note(one)
    return watch


def test_a_time_counts_from_the_first_start() -> None:
    assert not due("time=5s", sight(104.9))
    assert due("time=5s", sight(105.0))


def test_a_step_counts_when_it_is_done() -> None:
    assert not due("step=10", sight(101, 9))
    assert not due("step=10", sight(101, None))
    assert due("step=10", sight(101, 12))


def test_a_step_waits_until_the_job_has_begun_again_after_the_fault_before() -> None:
    restarted, resumed = sight(112, None, attempt=2), sight(113, 40, attempt=2, from_step=40)
    assert not due("step=10", sight(111, 50), before=fault_at(110))
    assert not due("step=10", restarted, before=fault_at(110, restarted))
    assert due("step=10", resumed, before=fault_at(110, resumed))


def test_after_counts_from_the_recovery_before_or_from_the_first_checkpoint() -> None:
    assert not due("after=2s", sight(105))
    assert not due("after=2s", sight(105), first_saved_at=103.5)
    assert due("after=2s", sight(105.5), first_saved_at=103.5)
    resumed, again = sight(112, 45, attempt=2, from_step=40), sight(113, 50, attempt=2, from_step=40)
    assert not due("after=2s", sight(120, 50, 2), before=fault_at(110, resumed))
    assert not due("after=2s", sight(114, 60, 2), before=fault_at(110, resumed, again))
    assert due("after=2s", sight(115, 60, 2), before=fault_at(110, resumed, again))


def test_a_restore_is_between_a_restart_and_its_first_word() -> None:
    restarted, resumed = sight(112, None, attempt=2), sight(113, 40, attempt=2, from_step=40)
    assert not due("phase=restore", sight(101, 5))
    assert not due("phase=restore", sight(111, 50), before=fault_at(110))
    assert due("phase=restore", restarted, before=fault_at(110, restarted))
    assert not due("phase=restore", resumed, before=fault_at(110, restarted, resumed))
    assert due("phase=save", sight(101, 5))


@pytest.mark.parametrize(
    ("path", "pattern", "is_one"),
    [
        ("/w/out/step_5.pt", "/w/out/*.pt", True),
        ("/w/out/step_5.pt.tmp", "/w/out/*.pt", True),
        ("/w/out/tmpab3x", "/w/out/*.pt", True),
        ("/w/out/train.log", "/w/out/*.pt", False),
        ("/w/data/step_5.pt", "/w/out/*.pt", False),
        ("/w/out/checkpoint-5/rng.pth", "/w/out/checkpoint-*", True),
        ("/w/out/tmp-checkpoint-5/rng.pth", "/w/out/checkpoint-*", True),
        ("/w/out/runs/events", "/w/out/checkpoint-*", False),
        ("/", "/w/out/*", False),
    ],
)
def test_which_open_files_belong_to_a_checkpoint(path: str, pattern: str, is_one: bool) -> None:
    assert is_of_pattern(path, pattern) is is_one


def test_open_files_are_told_apart_by_what_they_are_open_for(tmp_path: Path) -> None:
    read, written = tmp_path / "read", tmp_path / "written"
    read.write_text("x")
    with read.open() as _, written.open("w") as _:
        this = [psutil.Process()]
        to_write, to_read = open_files(this, for_writing=True), open_files(this, for_writing=False)
    assert str(written) in to_write - to_read
    assert str(read) in to_read - to_write
    assert str(written) not in open_files(this, for_writing=True)


def test_the_kernel_tells_of_a_file_that_is_written(tmp_path: Path) -> None:
    events = DirectoryEvents([str(tmp_path), str(tmp_path / "nowhere")])
    try:
        assert events.is_watching
        assert not events.wait(0.0)
        writer = threading.Timer(0.05, lambda: (tmp_path / "a.pt").write_text("x"))
        writer.start()
        assert events.wait(60.0)
        writer.join()
    finally:
        events.close()
    assert not DirectoryEvents([str(tmp_path / "nowhere")]).is_watching


def test_nothing_is_left_open(tmp_path: Path) -> None:
    before = open_descriptors()
    DirectoryEvents([str(tmp_path)]).close()
    assert open_descriptors() - before == set()
