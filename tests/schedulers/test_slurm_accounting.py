"""Asking sacct for a whole cluster: which fields, which command, and an answer of any length, or a clear refusal."""

import os
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.core.errors import SchedulerError
from lastgood.schedulers.slurm_accounting import Stream, fields_of_sacct, words_of_sacct
from schedulers.fake_slurm import FakeSlurm


@pytest.fixture
def fake(tmp_path):
    return FakeSlurm(tmp_path / "slurm")


@pytest.fixture
def environment(fake):
    return {"PATH": f"{fake.bin}:{os.environ['PATH']}"}


def test_only_fields_that_this_version_has_are_asked_for(fake, environment):
    fake.answer("sacct", "printf 'Account   AllocTRES   JobID  State\\nNNodes Partition Restarts\\n'")
    assert fields_of_sacct(environment) == ["JobID", "State", "NNodes", "AllocTRES", "Partition"]
    assert fake.calls("sacct") == [["--helpformat"]]


def test_without_sacct_it_says_where_to_run_it(tmp_path):
    with pytest.raises(SchedulerError, match="cannot run sacct") as refused:
        fields_of_sacct({"PATH": str(tmp_path)})
    assert "--sacct FILE" in refused.value.remedy


def test_what_sacct_says_is_passed_on(fake, environment):
    fake.answer("sacct", "echo 'sacct: error: Slurm accounting storage is disabled' >&2; exit 1")
    with pytest.raises(SchedulerError, match="accounting storage is disabled"):
        fields_of_sacct(environment)


def test_all_users_are_asked_for_unless_some_are_named():
    since, until = datetime(2026, 1, 1), datetime(2026, 1, 2, 3, 4, 5)
    words = words_of_sacct(["JobID"], since, until, partitions=["a", "b"])
    assert words[1:] == [
        *("-X", "--duplicates", "-P", "-S", "2026-01-01T00:00:00", "-E", "2026-01-02T03:04:05", "-a", "-r", "a,b"),
        *("-o", "JobID"),
    ]
    assert "-a" not in words_of_sacct(["JobID"], since, until, users=["ada"])


def read_all(words, environment, size, **options):
    parts = []
    with Stream(words, environment, 60, **options) as stream:
        while part := stream.read(size):
            parts.append(part)
    return parts


@pytest.mark.slow
@settings(max_examples=5)
@given(st.integers(1, 300_000))
def test_every_part_but_the_last_is_as_long_as_asked_for(size):
    parts = read_all(["seq", "60000"], dict(os.environ), size)
    assert b"".join(parts) == b"".join(b"%d\n" % n for n in range(1, 60001))
    assert {len(part) for part in parts[:-1]} <= {size}


def test_times_are_asked_for_as_numbers(fake, environment):
    fake.answer("sacct", "echo $SLURM_TIME_FORMAT $LC_ALL")
    assert read_all(["sacct"], environment, 100) == [b"%s C\n"]


def test_an_answer_that_breaks_off_is_no_answer(fake, environment):
    fake.answer("sacct", "echo 'JobID|State'; echo 'sacct: error: Connection refused' >&2; exit 1")
    with pytest.raises(SchedulerError, match="sacct said: sacct: error: Connection refused"):
        read_all(["sacct"], environment, 1000)


def test_a_long_complaint_does_not_stop_it(fake, environment):
    fake.answer("sacct", "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo done")
    assert read_all(["sacct"], environment, 1000) == [b"done\n"]


def test_it_is_not_waited_for_without_end(fake, environment):
    """The clock says that the limit is over as soon as the command has begun."""
    fake.answer("sacct", "echo begun; exec sleep 1000")
    times = iter([0.0])
    with pytest.raises(SchedulerError, match="did not finish within 60 s") as late:
        read_all(["sacct"], environment, 1000, clock=lambda: next(times, 100.0))
    assert "--since" in late.value.remedy


def test_whoever_leaves_early_leaves_no_process(fake, environment):
    fake.answer("sacct", "exec yes")
    with Stream(["sacct"], environment, 60) as stream:
        assert stream.read(4) == b"y\ny\n"
    assert stream._process.poll() is not None
