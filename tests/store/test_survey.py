"""What a person types finds the checkpoint that they mean."""

import pytest

from lastgood.core import layout
from lastgood.core.errors import NoSuchJobError, StorageError
from lastgood.store.catalogue import set_mark
from lastgood.store.survey import State, find, last_good, survey


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("last", (20, 2)),
        ("10", (10, 2)),
        ("10-1", (10, 1)),
        ("0010-01", (10, 1)),
        (layout.checkpoint_name(10, 2), (10, 2)),
        ("30", (30, 1)),
    ],
)
def test_found(job, save_step, wanted, found):
    for step, attempt in ((10, 1), (30, 1), (10, 2), (20, 2)):
        save_step(step, attempt=attempt)
    one = find(job, survey(job), wanted)
    assert (one.listed.step, one.listed.attempt) == found


@pytest.mark.parametrize("wanted", ["", "99", "10-3", "-1", "10-", "best", "1e1", "10 ", "../10-1", "9" * 13, "١٠"])
def test_not_found(job, save_step, wanted):
    save_step(10)
    with pytest.raises(NoSuchJobError) as caught:
        find(job, survey(job), wanted)
    assert "lastgood ls" in caught.value.remedy


def test_the_last_good_passes_over_what_a_start_would(job, save_step):
    for step in (1, 2, 3, 4):
        save_step(step)
    set_mark(job, layout.checkpoint_name(4, 1), layout.REJECTED_FILE, "x")
    (job.checkpoints / layout.checkpoint_name(3, 1) / layout.MANIFEST_FILE).write_text("x")
    (job.checkpoints / layout.checkpoint_name(2, 1) / layout.MANIFEST_FILE).unlink()
    assert [s.state for s in survey(job)] == [State.REJECTED, State.DAMAGED, State.INCOMPLETE, State.GOOD]
    assert last_good(survey(job)).listed.step == 1


def test_none_at_all(job):
    assert last_good([]) is None
    with pytest.raises(NoSuchJobError, match="no good checkpoint"):
        find(job, [], "last")


def test_a_directory_that_cannot_be_listed_is_an_error(job):
    job.checkpoints.rmdir()
    with pytest.raises(StorageError, match="list the checkpoints"):
        survey(job)
