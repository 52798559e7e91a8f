"""`lastgood.testing.assert_resume_equal`, as it stands in tests of users."""

import sys
from pathlib import Path

import prove_loops as loops
import pytest

from lastgood.core.errors import UsageError
from lastgood.testing import assert_resume_equal


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


@pytest.mark.slow
def test_it_passes_for_a_job_that_resumes_equal(mine: Path):
    (mine / "train.py").write_text(loops.RIGHT)
    assert_resume_equal([sys.executable, "train.py"], directory=mine, kills=1, again=True, limit_s=60)


@pytest.mark.slow
def test_it_fails_with_the_whole_report(mine: Path, tmp_path: Path):
    (mine / "train.py").write_text(loops.NO_OPTIMIZER)
    with pytest.raises(AssertionError) as caught:
        assert_resume_equal(
            f"{sys.executable} train.py", directory=mine, kills=1, again=True, limit_s=60, keep=tmp_path / "kept"
        )
    text = str(caught.value)
    assert "DIVERGED" in text
    assert "the optimizer is not in the checkpoint" in text
    assert "killed-1" in text
    assert (tmp_path / "kept" / "killed-1" / "output.txt").exists()


@pytest.mark.slow
def test_what_cannot_be_told_fails(mine: Path):
    (mine / "train.py").write_text("print('step 1')")
    with pytest.raises(AssertionError, match="UNKNOWN"):
        assert_resume_equal([sys.executable, "train.py"], directory=mine, limit_s=60)


def test_a_bad_call_is_no_failed_assertion(mine: Path):
    with pytest.raises(UsageError, match="--kills 0"):
        assert_resume_equal([sys.executable, "train.py"], directory=mine, kills=0)


def test_a_link_through_which_it_would_write_is_refused_before_anything_runs(mine: Path, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (mine / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="--leave-out out"):
        assert_resume_equal([sys.executable, "job.py"], directory=mine, keep=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
