"""Histories of failures: journals of a job, and what `lastgood history --json` prints."""

import json
from pathlib import Path

import pytest

from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.outcome import Outcome
from lastgood.drill.replay import read_history
from lastgood.drill.schedule import Failure
from lastgood.store.attempts import Journal, claim_attempt
from lastgood.store.jobdir import create_job


def test_a_jobs_journals_tell_when_it_failed_in_running_time(tmp_path: Path) -> None:
    job = create_job(tmp_path / "job")
    for outcome in ("killed", "hang", "finished"):
        attempt = claim_attempt(job, "launch").attempt
        journal = Journal(job, attempt)
        journal.write("launched", command="x")
        journal.write("ended", outcome=outcome)
        journal.close()
    failures = read_history(job.path).failures
    assert [failure.outcome for failure in failures] == [Outcome.KILLED, Outcome.HANG]
    assert 0 <= failures[0].at_s <= failures[1].at_s


def test_the_answer_of_history_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    rows = [
        {"attempt": 1, "began": 100.0, "ended": 160.0, "outcome": "node failure", "more": 1},
        {"attempt": None, "began": 200.0, "ended": 210.0, "outcome": ""},
        {"attempt": 2, "began": 300.0, "ended": 330.0, "outcome": "preempted"},
        {"attempt": 3, "began": 400.0, "ended": None, "outcome": ""},
    ]
    path.write_text(json.dumps({"job": "x", "attempts": rows}))
    # Waiting in a queue does not count.
    assert read_history(path).failures == [Failure(60.0, Outcome.NODE_FAILURE), Failure(100.0, Outcome.PREEMPTED)]


def test_the_accounting_of_a_cluster_gives_a_rate(tmp_path: Path) -> None:
    path = tmp_path / "failures.json"
    path.write_text(json.dumps({"rate": {"per_1000_node_days": 6.5, "low": 5, "high": 8}, "attempts": {"jobs": 3}}))
    told = read_history(path)
    # 6.5 in 1,000 node-days: 64 nodes fail every 2.4 days.
    assert told.mtti_s(64) == pytest.approx(1000 / (6.5 * 64) * 86400)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "not json", '{"attempts": [{"began": "x"}]}', '{"attempts": []}', '{"rate": null}', "3"]
)
def test_what_is_no_history_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"file\.json"):
        read_history(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LastgoodError, match="nowhere"):
        read_history(tmp_path / "nowhere")
