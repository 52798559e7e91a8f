"""A disk that is full, slow or failing, over a directory that stays what it is: really mounted, really unmounted."""

import errno
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from drill.drill_programs import REPLACED, WITH_LIBRARY, hurrying
from drill.drill_scenes import program, scene_with, target_of
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.drill.fault import Call, make_fault
from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.changes import ChangeLog
from lastgood.drill.filesystem.disk import FaultyDisk
from lastgood.drill.filesystem.faults import checkpoint_directory
from lastgood.drill.filesystem.table import Failure, FaultTable
from lastgood.trial.processes import words_of
from lastgood.trial.target import Way

needs_fuse = pytest.mark.skipif(bool(mounting.missing()), reason=mounting.missing() or "-")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FaultyDisk]:
    path = tmp_path / "disk"
    path.mkdir()
    (path / "before").write_text("was there")
    with FaultyDisk(path) as disk:
        yield disk


def refused(call: Callable[[], object]) -> str:
    """The name of the error that a call gives; empty if it gives none."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return ""


# -- the table, without a mount


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_bandwidth_is_shared_and_kept_exactly() -> None:
    clock = Clock()
    table = FaultTable(clock=clock, sleep=clock.sleep)
    slow = table.slow(0.0, 1000.0)
    table.move(0)
    assert not table.was_felt(slow)
    for size in (500, 1500):
        table.move(size)
    assert clock.now == pytest.approx(102.0)
    table.heal()
    table.move(10**9)
    assert clock.now == pytest.approx(102.0)
    assert table.was_felt(slow)


def test_a_delay_holds_back_changes_only() -> None:
    clock = Clock()
    table = FaultTable(clock=clock, sleep=clock.sleep)
    slow = table.slow(0.5, 0.0)
    table.enter("read")
    assert not table.was_felt(slow)
    table.enter("write", changes=True)
    assert clock.now == pytest.approx(100.5)


def test_failures_are_counted_from_when_they_are_set() -> None:
    table = FaultTable()
    table.enter("fsync", changes=True)
    table.fail(Failure("fsync", errno.EIO, nth=2, count=2))
    assert [table.enter("fsync", changes=True) for _ in range(4)] == [0, errno.EIO, errno.EIO, 0]
    table.fail(Failure("change", errno.ENOSPC, nth=1, count=1))
    assert [table.enter("read"), table.enter("mkdir", changes=True)] == [0, errno.ENOSPC]


def test_each_fault_of_a_disk_is_felt_by_itself() -> None:
    table = FaultTable(sleep=lambda _: None)
    write, rename = (table.fail(Failure(name, errno.EIO, nth=1, count=1)) for name in ("write", "rename"))
    full, slow = table.fill(0), table.slow(1.0)
    with pytest.raises(OSError, match="No space left"):
        table.take(1)
    assert [table.was_felt(fault) for fault in (write, rename, full, slow)] == [False, False, True, False]
    table.enter("rename", changes=True)
    assert [table.was_felt(fault) for fault in (write, rename, full, slow)] == [False, True, True, True]
    table.heal()
    assert not table.was_felt(table.fail(Failure("rename", errno.EIO, nth=1, count=1)))


def test_only_changes_that_match_are_counted_towards_a_kill() -> None:
    log = ChangeLog()
    assert not log.is_deadly(1, "write", "anything"), "nobody watches"
    log.watch(("ckpt*",), killed_from=2)
    asked = [
        ("create", "ckpt.tmp"),
        ("write", "log.txt"),
        ("write", "ckpt.tmp"),
        ("write", "log.txt"),
        ("rename", "ckpt.tmp"),
    ]
    assert [log.is_deadly(1, *each) for each in asked] == [False, False, True, False, True]
    struck = log.struck()
    assert struck is not None and (struck.operation, struck.path) == ("write", "ckpt.tmp")
    assert [change.operation for change in log.changes()] == ["create"]


def test_the_deepest_directory_that_holds_all_checkpoints_becomes_the_disk(tmp_path: Path) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    for pattern, expected in (
        ("ckpt.pt", "."),
        ("out/*.pt", "out"),
        ("out/deep/step-*/model.pt", "out/deep"),
        ("out/later/model.pt", "out"),
        ("{run}/out/*.pt", "out"),
    ):
        assert checkpoint_directory(pattern, tmp_path) == tmp_path / expected, pattern


# -- mounted


@needs_fuse
@pytest.mark.slow
def test_what_was_there_is_seen_and_what_is_written_stays(disk: FaultyDisk) -> None:
    path = disk.path
    assert os.path.ismount(path)
    assert (path / "before").read_text() == "was there"
    data = os.urandom(20_000_000)
    (path / "new").mkdir()
    (path / "new" / "file.part").write_bytes(data)
    os.replace(path / "new" / "file.part", path / "new" / "file")
    os.link(path / "new" / "file", path / "hard")
    os.symlink("new/file", path / "soft")
    with (path / "log").open("a") as log:
        log.write("one\n")
    with (path / "log").open("a") as log:
        log.write("two\n")
    os.utime(path / "log", ns=(1, 2))
    disk.close()
    assert not os.path.ismount(path)
    assert sorted(os.listdir(path)) == ["before", "hard", "log", "new", "soft"]
    assert (path / "soft").read_bytes() == (path / "hard").read_bytes() == data
    assert (path / "log").read_text() == "one\ntwo\n"
    assert (path / "log").stat().st_mtime_ns == 2


@needs_fuse
@pytest.mark.slow
def test_programs_find_what_they_expect_of_a_disk(disk: FaultyDisk) -> None:
    """Shared maps, files without a name, truncation, reading and writing through one descriptor."""
    with (disk.path / "mapped").open("w+b") as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as mapped:
            mapped[4096:4099] = b"abc"
            mapped.flush()
    assert (disk.path / "mapped").read_bytes()[4096:4099] == b"abc"
    with tempfile.TemporaryFile(dir=disk.path) as nameless:
        nameless.write(b"12345")
        nameless.seek(1)
        assert nameless.read() == b"2345"
        assert not [name for name in os.listdir(disk.path) if "fuse" in name]
    os.truncate(disk.path / "mapped", 3)
    assert (disk.path / "mapped").stat().st_size == 3


@needs_fuse
@pytest.mark.slow
def test_a_full_disk_takes_what_fits_and_has_space_again_after_a_deletion(disk: FaultyDisk) -> None:
    path = disk.path
    (path / "old").write_bytes(bytes(50_000))
    full = disk.fill(left_bytes=10_000)
    assert not disk.was_felt(full)
    assert os.statvfs(path).f_bavail * os.statvfs(path).f_frsize <= 10_000
    with (path / "new").open("wb", buffering=0) as file:
        assert file.write(bytes(30_000)) == 10_000, "as a real disk: the part that fits"
        assert refused(lambda: file.write(b"x")) == "ENOSPC"
        assert refused(lambda: os.mkdir(path / "directory")) == "ENOSPC"
        assert os.pwrite(file.fileno(), b"again", 0) == 5, "overwriting needs no space"
        (path / "old").unlink()
        assert file.write(bytes(40_000)) == 40_000
    assert disk.was_felt(full)
    disk.heal()
    (path / "more").write_bytes(bytes(100_000))
    assert (path / "more").stat().st_size == 100_000


def flush(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


FAILING: dict[str, Callable[[Path], object]] = {
    "write": lambda path: (path / "before").write_text("x"),
    "fsync": lambda path: flush(path / "before"),
    "rename": lambda path: os.rename(path / "before", path / "after"),
    "create": lambda path: (path / "new").write_text("x"),
    "open": lambda path: (path / "before").read_text(),
    "read": lambda path: (path / "before").read_text(),
    "truncate": lambda path: os.truncate(path / "before", 1),
    "unlink": lambda path: (path / "before").unlink(),
    "mkdir": lambda path: (path / "directory").mkdir(),
    "link": lambda path: os.link(path / "before", path / "hard"),
}


@needs_fuse
@pytest.mark.slow
def test_a_call_of_each_name_fails_once_and_then_works(disk: FaultyDisk) -> None:
    for name, call in FAILING.items():
        (disk.path / "before").write_text("was there")
        fault = disk.fail(name, errno.EIO)
        assert refused(lambda call=call: call(disk.path)) == "EIO", name
        assert refused(lambda call=call: call(disk.path)) == "", name
        assert disk.was_felt(fault), name
        disk.heal()


@needs_fuse
@pytest.mark.slow
def test_whoever_is_spared_finds_the_disk_as_it_is_and_does_not_use_up_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    path.mkdir()
    (path / "before").write_text("was there")
    words = [sys.executable, "-c", f"open({str(path / 'before')!r}).read()"]
    with FaultyDisk(path, spared_pid=os.getpid()) as disk, ThreadPoolExecutor(1) as thread:
        for operation in ("open", "read"):
            fault = disk.fail(operation, errno.EIO)
            for look in (FAILING["open"], lambda path: thread.submit(FAILING["open"], path).result()):
                assert refused(lambda look=look: look(path)) == "", operation
            assert not disk.was_felt(fault)
            said = subprocess.run(words, capture_output=True, text=True, check=False).stderr
            assert "Input/output error" in said, operation
            assert disk.was_felt(fault)
            disk.heal()
        slow, full = disk.slow(bytes_per_s=1e6), disk.fill(0)
        (path / "copied").mkdir()
        assert (path / "copied" / "file").write_bytes(bytes(10_000_000)) == 10_000_000
        assert not disk.was_felt(slow) and not disk.was_felt(full)


@needs_fuse
@pytest.mark.slow
def test_it_is_unmounted_when_whoever_has_mounted_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    text = (
        "import sys, time\nfrom pathlib import Path\nfrom lastgood.drill.filesystem.disk import FaultyDisk\n"
        f"with FaultyDisk(Path({str(path)!r})):\n    print('mounted', flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mounted\n"
        assert os.path.ismount(path)
        process.send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while os.path.ismount(path):
        assert time.monotonic() < end, "it is still mounted"
        time.sleep(0.01)


@needs_fuse
@pytest.mark.slow
def test_nothing_is_left_mounted_by_one_that_is_interrupted_while_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "disk"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mounting, "_await_mount", interrupted)
    with pytest.raises(KeyboardInterrupt), FaultyDisk(path):
        pass
    (path / "file").write_text("works")
    assert not os.path.ismount(path)
    assert str(path) not in Path("/proc/self/mountinfo").read_text()


@needs_fuse
@pytest.mark.slow
def test_a_server_that_has_died_is_said_and_the_directory_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "disk"
    with FaultyDisk(path) as disk:
        (server,) = [process for process in psutil.process_iter() if str(path) in " ".join(words_of(process))]
        server.kill()
        with pytest.raises(LastgoodError, match="has ended"):
            disk.heal()
    assert not os.path.ismount(path)
    (path / "file").write_text("works")


@needs_fuse
@pytest.mark.slow
def test_what_cannot_be_mounted_is_said_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(LastgoodError, match="cannot mount a file system on"),
        mounting.mounted(("-m", "lastgood.drill.filesystem.passing"), tmp_path / "file"),
    ):
        pass


def test_what_is_missing_on_a_machine_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mounting, "FUSE_DEVICE", tmp_path / "no-device")
    assert "no-device" in mounting.missing()
    (tmp_path / "device").write_text("")
    monkeypatch.setattr(mounting, "FUSE_DEVICE", tmp_path / "device")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "fusermount3 is not installed" in mounting.missing()


# -- as faults of a drill


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("disk-error", {"operation": "swim"}, "operation=swim"),
        ("disk-error", {"error": "EOOPS"}, "error=EOOPS"),
        ("disk-full", {"left": "much"}, "'much' is not a size"),
        ("disk-slow", {"where": "moon"}, "where=moon"),
    ],
)
def test_options_that_do_not_fit_are_refused(name: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_fault(name, options)


def test_a_disk_of_what_does_not_exist_is_refused_before_anything_starts(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    assert "--checkpoints" in make_fault("disk-full", {"where": "checkpoints"}).missing(Call(target, Way.AGAIN))
    assert "launcher" in make_fault("disk-full", {"where": "job"}).missing(Call(target, Way.AGAIN))


@needs_fuse
@pytest.mark.slow
def test_a_job_with_our_library_goes_on_without_space_and_saves_again_afterwards(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", hurrying(WITH_LIBRARY)), "1500")
    with scene_with("disk-full", {}, target, Way.LASTGOOD, tmp_path) as (fault, scene):
        scene.trial.start()
        assert scene.wait_until(lambda sight: (sight.saved_step or 0) >= 10, 60)
        injected = fault.inject(scene)
        assert scene.wait_until(lambda _: bool(fault.took_effect(scene, injected)), 60), "no save came"
        full_at = scene.look().saved_step or 0
        fault.heal(scene)
        assert scene.wait_until(lambda sight: (sight.saved_step or 0) > full_at, 60)
        (scene.trial.place.work / "HURRY").touch()
        assert scene.trial.finish(60) == 0
        assert len(scene.trial.records()) == 1, "it needed no restart"
    assert not os.path.ismount(scene.trial.place.job)


@needs_fuse
@pytest.mark.slow
def test_a_script_dies_of_an_error_and_resumes_when_it_is_started_again(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", hurrying(REPLACED)), "1500", checkpoints="ckpt.bin")
    options = {"operation": "rename", "error": "EIO"}
    with scene_with("disk-error", options, target, Way.AGAIN, tmp_path) as (fault, scene):
        scene.trial.start()
        assert scene.wait_until(lambda sight: (sight.step or 0) > 12, 60)
        injected = fault.inject(scene)
        (scene.trial.place.work / "HURRY").touch()
        assert scene.trial.finish(60) == 0
        assert fault.took_effect(scene, injected)
        assert scene.trial.exit_codes == [1, 0]
        text = scene.trial.place.output.read_text()
    assert "OSError: [Errno 5] Input/output error" in text
    steps = [int(step) for step in re.findall(r"^step (\d+) ", text, re.MULTILINE)]
    (again,) = (i for i in range(1, len(steps)) if steps[i] <= steps[i - 1])
    died_at, began_at = steps[again - 1], steps[again]
    assert died_at % 10 == 0 and began_at == died_at - 10 + 1, "it went on after the save before"


@needs_fuse
@pytest.mark.slow
def test_two_faults_share_a_disk_and_it_goes_with_the_last(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", REPLACED), "5", checkpoints="ckpt.bin")
    with scene_with("disk-slow", {"bandwidth": "1MB/s"}, target, Way.AGAIN, tmp_path) as (slow, scene):
        full = make_fault("disk-full", {})
        full.prepare(scene)
        work = scene.trial.place.work
        full.take_down(scene)
        assert os.path.ismount(work)
        injected = slow.inject(scene)
        (work / "file").write_bytes(bytes(50_000))
        assert slow.took_effect(scene, injected) is False, "it was the drill itself"
        scene.trial.start()
        assert scene.wait_until(lambda _: slow.took_effect(scene, injected), 60)
    assert not os.path.ismount(work)


@needs_fuse
@pytest.mark.slow
def test_the_drills_own_looks_leave_an_error_to_the_job(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", WITH_LIBRARY), "40")
    with scene_with("disk-error", {"operation": "open"}, target, Way.LASTGOOD, tmp_path) as (fault, scene):
        injected = fault.inject(scene)
        place = scene.trial.place
        place.job.joinpath("file").write_text("x")
        for _ in range(3):
            assert place.job.joinpath("file").read_text() == "x"
        assert not fault.took_effect(scene, injected)
        scene.trial.start()
        assert scene.wait_until(lambda _: fault.took_effect(scene, injected), 60)


@needs_fuse
@pytest.mark.slow
def test_a_job_begins_from_nothing_again_while_its_disk_is_full(tmp_path: Path) -> None:
    target = target_of(program(tmp_path / "src", REPLACED), "60", checkpoints="ckpt.bin")
    with scene_with("disk-full", {}, target, Way.FROM_NOTHING, tmp_path) as (fault, scene):
        scene.trial.start()
        assert scene.wait_until(lambda sight: (sight.step or 0) > 12, 60)
        fault.inject(scene)
        scene.wait_until(lambda sight: not sight.is_running, 60)
        scene.trial.start()
        assert scene.wait_until(lambda sight: sight.start == 2 and (sight.step or 0) > 2, 60)
        assert not (scene.trial.place.work / "ckpt.bin").exists()
