"""Saves by a keeper, seen from the program: what is known when, what a keeper's loss means, what children hold."""

import gc
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import lastgood
from keeper.leftovers import end_keepers, keepers_of
from keeper.rank_program import RankProcess
from keeper.ranks import until
from lastgood.core.errors import FencedError, LastgoodError, StorageError
from lastgood.keeper import protocol
from lastgood.keeper.client import Keeper
from lastgood.keeper.protocol import Channel
from lastgood.keeper.starting import start_keeper
from lastgood.runtime import slots
from lastgood.runtime.line import Line
from lastgood.store.attempts import claim_attempt, read_events
from lastgood.store.jobdir import create_job, open_job
from lastgood.store.reader import open_checkpoint
from runtime.conftest import in_background, names
from runtime.zygote import Zygote

pytestmark = [pytest.mark.slow, in_background]

Start = Callable[..., lastgood.Run]
HERE = "runtime.beside:"
ENDLESS = 100_000
"""Steps that nobody takes to the end: what is waited for comes long before, also on a busy machine."""


def steps_of(path: Path) -> list[int]:
    """Rising, of checkpoints that are whole."""
    found = {name: problems_of(path, name) for name in names(path)}
    # Retention goes on after the program has ended.
    still = [name for name in names(path) if name in found]
    assert all(found[name] == [] for name in still)
    return sorted(int(name.split("-")[0]) for name in still)


def problems_of(path: Path, name: str) -> list[str]:
    try:
        return open_checkpoint(open_job(path), name).verify()
    except (LastgoodError, OSError) as error:
        return [str(error)]


def kinds(path: Path, attempt: int = 1) -> list[str]:
    return [event.kind for event in read_events(open_job(path), attempt)]


def obstruct(path: Path, step: int, attempt: int = 1) -> None:
    """A file is where the directory of a checkpoint should be."""
    (path / "checkpoints" / f"{step:012d}-{attempt:04d}").touch()


# What is known when --------------------------------------------------------------------------------------------


def test_a_save_that_failed_is_known_soon_and_training_carries_on(
    start: Start, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.zeros(3)
    run = start({"x": x}, every=2)
    obstruct(path, 4)
    said = ""
    for step in run.steps(ENDLESS):
        x += 1
        time.sleep(0.002)
        said += capsys.readouterr().err
        if step > 6 and "SAVE FAILED" in said:
            run.finish()
            break
    assert "SAVE FAILED at step 4; carrying on from the last good one, step 2" in said
    assert "cannot write a checkpoint to" in said and "what to do:" in said
    assert steps_of(path)[-1] == run.step
    assert kinds(path).count("save_failed") == 1


def test_stop_at_a_save_that_failed(start: Start, path: Path) -> None:
    run = start({"x": np.zeros(3)}, every=2, on_save_error="stop")
    obstruct(path, 4)
    with pytest.raises(StorageError, match="cannot write a checkpoint to"):
        for _ in run.steps(ENDLESS):
            time.sleep(0.002)
    assert 4 <= run.step < ENDLESS
    assert 2 in steps_of(path)


def test_the_last_save_cannot_be_made_up_for(start: Start, path: Path) -> None:
    run = start({"x": np.zeros(3)}, every=2)
    obstruct(path, 4)
    with pytest.raises(StorageError):
        list(run.steps(4))
    assert open_job(path).finished() is None
    assert steps_of(path) == [2]


def test_a_newer_attempt_stops_this_one_soon(start: Start, path: Path) -> None:
    run = start({"x": np.zeros(3)}, every=2)
    with pytest.raises(FencedError):
        for step in run.steps(ENDLESS):
            if step == 3:
                until(lambda: steps_of(path) == [2])
                claim_attempt(open_job(path), "another")
            time.sleep(0.002)
    assert run.step < ENDLESS
    assert steps_of(path) == [2]


def test_a_newer_attempt_stops_this_one_soon_although_its_keeper_is_gone(start: Start, path: Path) -> None:
    run = start({"x": np.zeros(3)}, every=2, rank_limit="1h")
    with pytest.raises(FencedError):
        for step in run.steps(ENDLESS):
            if step == 3:
                until(lambda: steps_of(path) == [2])
                for keeper in keepers_of(path.parent):
                    keeper.kill()
                claim_attempt(open_job(path), "another")
            time.sleep(0.002)
    run.close()
    assert steps_of(path) == [2]


def test_what_cannot_be_written_as_json_is_saved_all_the_same(start: Start, path: Path) -> None:
    run = start({"x": np.zeros(3)}, every=1)
    run.values["text"] = "\udcff"
    run.values["number"] = float("nan")
    for _ in run.steps(3):
        run.log(loss=float("nan"), other=float("inf"), large=10**30)
    assert steps_of(path)[-1] == 3


def test_a_job_in_a_directory_whose_name_is_no_text(tmp_path: Path, start: Start) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/job-\xff"))
    run = start({"x": np.zeros(3)}, job=path, every=1)
    obstruct(path, 2)
    for _ in run.steps(20):
        time.sleep(0.01)
    assert steps_of(path)[-1] == 20
    assert kinds(path).count("save_failed") == 1


def test_a_state_that_grows_gets_more_memory_and_loses_no_save(start: Start, path: Path) -> None:
    state: dict[str, Any] = {"x": np.zeros(10)}
    run = start(
        {"x": (lambda: state["x"], lambda value: state.update(x=value))}, every=1, keep=lastgood.Keep(last=None)
    )
    for step in run.steps(12):
        state["x"] = np.full(10 * 3**step, float(step))
    run.close()
    assert steps_of(path) == list(range(1, 13))
    resumed = start({"x": (lambda: state["x"], lambda value: state.update(x=value))}, every=1)
    assert resumed.step == 12 and state["x"].size == 10 * 3**12 and (state["x"] == 12).all()


def test_hundreds_of_saves_take_no_more_memory_or_descriptors(start: Start, path: Path) -> None:
    x = np.zeros(50_000)
    run = start({"x": x}, every=1)
    process = psutil.Process()
    seen: dict[int, tuple[int, int]] = {}
    for step in run.steps(400):
        x += 1
        if step in (100, 390):
            gc.collect()
            seen[step] = (process.num_fds(), process.memory_info().rss)
    assert seen[390][0] <= seen[100][0]
    assert seen[390][1] < seen[100][1] + 8 * 2**20
    assert steps_of(path)[-1] == 400


# Keepers that are lost, or of no use ---------------------------------------------------------------------------


def keeper_left_behind(path: Path) -> int:
    """A keeper that holds a snapshot of a program that was killed; its process id."""
    job = create_job(path)
    claim_attempt(job, "launch-1")
    start_keeper(job, 60.0, dict(os.environ), is_detached=True)
    with RankProcess(job) as rank:
        rank.do("commit 1")
    (keeper,) = keepers_of(path.parent)
    return keeper.pid


def test_a_keeper_of_another_version_is_replaced(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # As after an upgrade of the package between two attempts; the new keeper is told to be new, too.
    old = keeper_left_behind(path)
    monkeypatch.setattr(lastgood, "__version__", "99.0")
    monkeypatch.setattr(protocol, "hello", lambda *a, of=protocol.hello, is_refused=[True]: of(*a))
    run = start({"x": np.zeros(3)}, every=1, fresh=True)
    list(run.steps(3))
    said = capsys.readouterr().err
    # Whoever starts one starts this code, which is of the old version still: it cannot be served, and is told so.
    assert "no keeper (the keeper is of version" in said and "the program of version 99.0" in said
    until(lambda: not psutil.pid_exists(old))  # nobody needs it any more
    assert steps_of(path)[-1] == 3


class FalseKeeper:
    """Answers under the keeper's name, greets, and cuts whoever says more than that."""

    def __init__(self, job_id: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(protocol.address(job_id))
        self._listener.listen(10)
        self.greeted = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link:
                channel = Channel(link)
                message, _ = channel.receive(protocol.Request, 20)
                self.greeted += 1
                channel.send(protocol.Welcome(os.getpid()))
                while not isinstance(message, protocol.Slots):
                    try:
                        message, descriptors = channel.receive(protocol.Request, 20)
                    except OSError:
                        break
                    for fd in descriptors:
                        os.close(fd)
                    if isinstance(message, protocol.Take):
                        channel.send(protocol.Taken([], []))
                    if isinstance(message, protocol.Drain):
                        channel.send(protocol.Drained())

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(100)


def test_a_keeper_that_takes_no_snapshots_is_done_without_after_a_few_tries(
    start: Start, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    false = FalseKeeper(create_job(path).id)
    try:
        x = np.zeros(3)
        run = start({"x": x}, every=2)
        for _ in run.steps(20):
            x += 1
            time.sleep(0.005)
    finally:
        false.close()
    said = capsys.readouterr().err
    assert false.greeted < 20
    assert said.count("is lost") <= 5
    assert "and there is no other (3 were lost, one after the other)" in said
    assert steps_of(path)[-1] == 20


@pytest.mark.parametrize("possible", [0, 1])
def test_memory_that_cannot_be_had_is_said_and_saves_go_on(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], possible: int
) -> None:
    made: list[object] = []

    def make(capacity: int, real: Any = slots.Arena) -> Any:
        if len(made) == possible:
            raise OSError("no shared memory of 5 bytes: too much")
        made.append(real(capacity))
        return made[-1]

    monkeypatch.setattr(slots, "Arena", make)
    run = start({"x": np.zeros(3)}, every=1)
    list(run.steps(5))
    said = capsys.readouterr().err
    assert f"no shared memory of 5 bytes: too much: snapshots in memory at a time: {possible}" in said
    assert "keeper_lost" not in kinds(path)
    assert steps_of(path)[-1] == 5


def test_memory_that_goes_with_a_lost_keeper_costs_that_snapshot_only(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A keeper that lives, and cannot be reached any more, may read from the memory: nobody may use it again.
    def begin(keeper: Keeper, number: int, real: Any = Keeper.begin) -> None:
        if "keeper_lost" in kinds(path) or steps_of(path)[-1:] != [2]:
            return real(keeper, number)
        raise ConnectionError("cut")

    monkeypatch.setattr(Keeper, "begin", begin)
    monkeypatch.setattr(Line, "remake", lambda *_: False)
    x = np.zeros(3)
    run = start({"x": x}, every=2)
    for step in run.steps(8):
        x += 1
        if step == 3:
            until(lambda: steps_of(path) == [2])
    said = capsys.readouterr().err
    assert "SAVE FAILED at step 4" in said and "what there was went with the keeper" in said
    assert steps_of(path)[-1] == 8


# What else a program may do ------------------------------------------------------------------------------------


def run_program(programs: Zygote, name: str, path: Path) -> str:
    pid = programs.start(HERE + name, job=str(path))
    code = programs.wait(pid)
    output = programs.output(pid)
    assert code == 0, output
    return output


def test_a_forked_child_holds_neither_memory_nor_the_connection(programs: Zygote, path: Path) -> None:
    output = run_program(programs, "forks", path)
    assert re.search(r"parent [1-9]\d* 2 [1-9]", output), output
    assert re.search(r"child 0 0 0\nchild True 0 0 0\nended 0", output), output
    assert steps_of(path)[-1] == 4


def test_runs_of_one_job_one_after_the_other_have_a_keeper_each_time(programs: Zygote, path: Path) -> None:
    output = run_program(programs, "runs_again_and_again", path)
    assert "no keeper" not in output and "is lost" not in output
    assert "x 30.0" in output
    assert steps_of(path)[-1] == 30


def test_runs_of_two_jobs_in_one_process(programs: Zygote, path: Path) -> None:
    assert "5.0 10.0" in run_program(programs, "runs_of_two_jobs", path)
    assert steps_of(Path(f"{path}-x"))[-1] == steps_of(Path(f"{path}-y"))[-1] == 5


def test_a_run_that_is_not_in_the_main_thread(programs: Zygote, path: Path) -> None:
    run_program(programs, "in_a_thread", path)
    assert steps_of(path)[-1] == 10


def test_exceptions_of_the_programs_own_signal_handlers_mix_no_snapshots(programs: Zygote, path: Path) -> None:
    output = run_program(programs, "interrupted", path)
    (found,) = re.findall(r"finished (\d+) 150", output)
    job = open_job(path)
    # Its keeper deletes older ones until it goes.
    end_keepers(path.parent)
    assert steps_of(path)[-1] == int(found) == job.finished().step  # type: ignore[union-attr]
    for name in names(path):
        checkpoint = open_checkpoint(job, name)
        values = np.frombuffer(checkpoint.read(0, ["x"])["x"])
        assert len(set(values)) == 1, "all of one step"
        assert values[0] in (checkpoint.manifest.step, checkpoint.manifest.step + 1), (
            "the step, or its body's first half"
        )


def test_a_program_that_is_stopped_for_a_while_goes_on(programs: Zygote, path: Path) -> None:
    pid = programs.start("runtime.training:sum_steps", job=str(path), total=60, every=2, pause_s=0.01)
    programs.wait_for_output(pid, "ready")
    for _ in range(5):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)
    assert programs.wait(pid) == 0
    assert "is lost" not in programs.output(pid)
    assert steps_of(path)[-1] == 60
