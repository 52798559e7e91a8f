"""What has to be the same for a process that was started earlier to be as good as one that is started now."""

import os
from pathlib import Path

import pytest

from lastgood.launch import sameness


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "module.py").write_text("x = 1\n")
    return tmp_path


def look(place: Path) -> sameness.Found:
    path = [str(place / "own"), str(place / "site-packages"), str(place / "not there"), ""]
    return sameness.look([str(place / "module.py"), str(place / "absent.py")], path, ["torch.nn", "yaml"])


def test_nothing_has_changed(place: Path) -> None:
    assert sameness.difference(look(place), look(place)) == ""


def test_a_file_with_other_content_another_time_or_none_has_changed(place: Path) -> None:
    module = place / "module.py"
    before = look(place)
    status = module.stat()
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert sameness.difference(before, look(place)) == f"{module} has changed"
    before = look(place)
    module.write_text("x = 12\n")
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert "has changed" in sameness.difference(before, look(place))
    before = look(place)
    module.unlink()
    assert "has changed" in sameness.difference(before, look(place))


def test_a_file_that_has_come_has_changed(place: Path) -> None:
    before = look(place)
    (place / "absent.py").write_text("")
    assert "absent.py has changed" in sameness.difference(before, look(place))


def test_a_package_that_was_installed_meanwhile_is_seen(place: Path) -> None:
    before = look(place)
    os.utime(place / "site-packages", ns=(1, 1))
    assert "site-packages has changed" in sameness.difference(before, look(place))


def test_an_own_file_counts_only_if_it_hides_an_installed_module(place: Path) -> None:
    before = look(place)
    (place / "own" / "checkpoint.pt").write_text("")
    assert sameness.difference(before, look(place)) == ""
    (place / "own" / "yaml.cpython-311.so").write_text("")
    assert "yaml.cpython-311.so has come or gone" in sameness.difference(before, look(place))


def test_another_working_directory_mask_of_processors_or_limit_is_seen(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(place)
    monkeypatch.chdir(place)
    assert sameness.difference(before, look(place)) == "the launcher's working directory has changed"
    before = look(place)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {77})
    assert sameness.difference(before, look(place)) == "the launcher's CPU affinity has changed"


def test_the_files_that_a_process_has_mapped_are_its_interpreter_and_libraries() -> None:
    files = sameness.mapped_files(os.getpid())
    assert any("libc" in file for file in files)
    assert all(file.startswith("/") for file in files)
    assert sameness.mapped_files(2**22 + 1) == []
