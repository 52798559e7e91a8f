"""Whether something in a checkpoint tells that it was written to its end."""

import pickle
import zipfile
from pathlib import Path

import pytest

from lastgood.apps.described_checks import quick_problem, tells_its_end
from lastgood.apps.description_tables import Check, Content
from lastgood.launch.findings import Match, find


def match(path: Path) -> Match:
    return find(str(path))[0]


@pytest.mark.parametrize("name", ["state.pt", "state.npz", "state.ckpt", "state.bin"])
def test_an_archive_tells_its_end_and_lacks_it_while_it_is_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "x" * 100)
    assert tells_its_end(Check(), match(path))
    assert not tells_its_end(Check(formats=False), match(path))
    path.write_bytes(path.read_bytes()[:-20])
    assert tells_its_end(Check(), match(path)) and "damaged" in quick_problem(Check(), match(path), [])


def test_other_files_and_directories_do_not_tell_their_end_without_a_pattern_for_it(tmp_path: Path) -> None:
    (tmp_path / "step_3").mkdir()
    (tmp_path / "step_3" / "a").write_text("x")
    (tmp_path / "restart.dat").write_text("x")
    (tmp_path / "old.pt").write_bytes(pickle.dumps([1]))
    for name in ("step_3", "restart.dat", "old.pt"):
        assert not tells_its_end(Check(), match(tmp_path / name))
        assert tells_its_end(Check(content=[Content(end="END")]), match(tmp_path / name))
