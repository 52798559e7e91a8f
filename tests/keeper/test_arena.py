"""Shared memory: how large it is, that it stays, that nothing of it is left."""

import errno
import fcntl
import mmap
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from descriptors import open_descriptors
from lastgood.keeper import arena
from lastgood.keeper.arena import HUGE_PAGE_BYTES, Arena, is_sound


def mapped() -> int:
    """How many pieces of our shared memory this process has mapped."""
    return Path("/proc/self/maps").read_text().count("memfd:lastgood")


@pytest.mark.parametrize(
    "capacity", [0, 1, HUGE_PAGE_BYTES - 1, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1, 10 * HUGE_PAGE_BYTES]
)
def test_there_is_room_for_what_was_asked_for(capacity: int) -> None:
    made = Arena(capacity)
    assert made.capacity >= max(1, capacity) and made.capacity % HUGE_PAGE_BYTES == 0
    assert len(made.view) == made.capacity == os.fstat(made.fd).st_size
    made.close()


def test_who_maps_the_descriptor_sees_the_same_memory() -> None:
    one = Arena(1)
    other = Arena(one.capacity, os.dup(one.fd))
    one.view[5:10] = b"hello"
    assert bytes(other.view[5:10]) == b"hello"
    one.close()
    assert bytes(other.view[5:10]) == b"hello", "it lives with its last holder"
    other.close()


def test_it_cannot_be_made_smaller_by_anybody() -> None:
    made = Arena(1)
    for fd in (made.fd, os.open(f"/proc/self/fd/{made.fd}", os.O_RDWR)):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, 0)
    os.close(fd)
    made.close()


def test_it_is_not_passed_on_to_commands_and_has_no_name() -> None:
    made = Arena(1)
    assert not os.get_inheritable(made.fd)
    assert os.readlink(f"/proc/self/fd/{made.fd}").startswith("/memfd:")
    made.close()


def test_nothing_is_left_when_it_is_closed() -> None:
    before = open_descriptors(), mapped()
    made = Arena(3 * HUGE_PAGE_BYTES)
    made.touch_in_background()
    made.close()
    assert not open_descriptors() - before[0]
    assert mapped() <= before[1]


def test_a_view_that_is_still_held_keeps_its_memory_until_it_is_gone() -> None:
    before = open_descriptors(), mapped()
    made = Arena(1)
    made.view[:3] = b"abc"
    view = made.view[:3]
    made.close()
    assert bytes(view) == b"abc"
    del view, made
    assert not open_descriptors() - before[0]
    assert mapped() <= before[1]


def test_touching_gets_all_pages_and_changes_nothing() -> None:
    made = Arena(2 * arena._TOUCH_BYTES + HUGE_PAGE_BYTES)
    made.view[:5] = b"hello"
    made.touch_in_background()
    assert made._toucher is not None
    made._toucher.join()
    assert os.fstat(made.fd).st_blocks * 512 == made.capacity
    assert bytes(made.view[:6]) == b"hello\0"
    made.close()


def test_touching_stops_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Arena(4 * arena._TOUCH_BYTES)
    pieces = []

    def first_only(address: int, size: int) -> int:
        pieces.append(size)
        made._is_closed.set()
        return 0

    monkeypatch.setattr(arena, "_populate", first_only)
    made.touch_in_background()
    made.await_touch()
    made.close()
    assert len(pieces) == 1


def test_a_kernel_that_cannot_touch_ahead_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "_populate", lambda address, size: -1)
    made = Arena(1)
    made.touch_in_background()
    made.view[:1] = b"x"
    made.close()


def test_memory_that_cannot_be_had_is_an_error_that_says_how_much_and_leaves_nothing() -> None:
    before = open_descriptors()
    with pytest.raises(OSError, match=str(2**60)):
        Arena(2**60)
    assert not open_descriptors() - before


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NOFILE"])
def test_limits_of_the_process_are_errors_too(limit: str) -> None:
    number = getattr(resource, limit)
    soft = {"RLIMIT_AS": 300 * 2**20, "RLIMIT_FSIZE": 2**20, "RLIMIT_NOFILE": 3}[limit]
    program = (
        "import resource, sys; from lastgood.keeper.arena import Arena\n"
        f"resource.setrlimit({number}, ({soft}, {soft}))\n"
        "try: Arena(1 << 30)\n"
        "except OSError as error: print('refused:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout.startswith("refused:")


def test_only_sealed_memory_of_full_size_is_sound(tmp_path: Path) -> None:
    made = Arena(1)
    assert is_sound(made.fd, made.capacity)
    assert not is_sound(made.fd, made.capacity + 1)
    assert not is_sound(made.fd, 0)
    assert not is_sound(made.fd, -5)
    made.close()
    unsealed = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, 4096)
    assert not is_sound(unsealed, 4096)
    fcntl.fcntl(unsealed, arena._F_ADD_SEALS, arena._F_SEAL_SHRINK)
    assert is_sound(unsealed, 4096)
    os.close(unsealed)
    with (tmp_path / "file").open("wb+") as file:
        file.truncate(4096)
        assert not is_sound(file.fileno(), 4096)
    read, write = os.pipe()
    assert not is_sound(read, 1)
    os.close(read)
    os.close(write)


@pytest.mark.slow
def test_a_forked_child_holds_nothing_once_it_has_let_go() -> None:
    made = Arena(1)
    made.view[:3] = b"abc"
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = "failed"
        try:
            made.close()
            names = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
            answer = f"{mapped()} {sum('memfd:lastgood' in name for name in names)}"
            # The addresses are free for others: what is done with the arena later must not touch them.
            other = mmap.mmap(-1, made.capacity)
            other[:3] = b"xyz"
            made.close()
            del made
            answer += f" {other[:3].decode()}"
        finally:
            os.write(write, answer.encode())
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 100).decode() == f"{mapped() - 1} 0 xyz"
    assert bytes(made.view[:3]) == b"abc", "the parent's is whole"
    os.close(read)
    os.close(write)
    made.close()


def _is_open(fd: str) -> bool:
    try:
        os.readlink(f"/proc/self/fd/{fd}")
    except OSError as error:
        return error.errno != errno.ENOENT
    return True
