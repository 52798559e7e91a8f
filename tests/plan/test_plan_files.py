"""What is read: journals, the accounting's history, plans; and what is no such thing."""

import msgspec
import pytest

from lastgood.core.accounting import Record
from lastgood.core.errors import DamagedError, FormatVersionError, UsageError
from lastgood.core.events import Event
from lastgood.core.interval_choice import SaveCost
from lastgood.core.reliability import FailureRate
from lastgood.plan.answer import answer
from lastgood.plan.counted import counted_failures
from lastgood.plan.document import PlanAnswer, read_plan
from lastgood.plan.journal import told_by
from lastgood.plan.mechanisms import Cluster
from lastgood.plan.situation import Failures, Situation
from lastgood.plan.solve import solve


def record(*events: Event) -> Record:
    return Record(1, 0.0, "x", False, list(events))


def committed(write_s: object, **more: object) -> Event:
    return Event("committed", 1.0, {"step": 1, "bytes": 5, "write_s": write_s, **more})


def test_a_journal_tells_the_median_of_its_saves() -> None:
    told = told_by([record(committed(1.0), committed(9.0)), record(committed(2.0, bytes=7))])
    assert (told.write_s, told.fastest_s, told.slowest_s, told.saves, told.bytes) == (2.0, 1.0, 9.0, 3, 7)
    assert (told.stall_s, told.restart_s, told.stage_write_s) == (None, None, None)


def test_a_journal_tells_the_stall_and_the_start() -> None:
    events = [
        Event("launched", 10.0, {}),
        Event("started", 14.0, {"how": "resumed"}),
        Event("paced", 20.0, {"interval_s": 60, "stall_s": None}),
        Event("paced", 30.0, {"interval_s": 60, "stall_s": 0.5}),
    ]
    told = told_by([record(*events)])
    assert (told.stall_s, told.restart_s, told.starts) == (0.5, 4.0, 1)
    assert told_by([record(events[0], Event("started", 99.0, {"how": "fresh"}))]).restart_s is None


def test_a_journal_tells_the_nodes_of_the_newest_allocation() -> None:
    told = told_by(
        [record(Event("allocation", 1.0, {"nodes": ["a"]}), Event("allocation", 2.0, {"nodes": ["a", "b"], "gpus": 8}))]
    )
    assert (told.nodes, told.gpus) == (2, 8)
    assert told_by([record(Event("allocation", 1.0, {"nodes": "a", "gpus": "x"}))]).nodes is None


def test_what_is_staged_counts_where_it_is() -> None:
    promoted = Event("promoted", 1.0, {"took_s": 30.0})
    told = told_by([record(committed(2.0, stage="/tmp/s"), promoted)])
    assert (told.write_s, told.stage_write_s) == (30.0, 2.0)


@pytest.mark.parametrize("value", [None, True, -1.0, "2", 1e300])
def test_a_journal_with_nonsense_tells_nothing(value: object) -> None:
    assert told_by([record(committed(value))]).write_s is None


def history(**changes: object) -> bytes:
    rate = FailureRate.counted([(1, 13)], 2000, "test")
    machines = FailureRate.counted([(1, 5)], 2000, "test")
    partitions = [{"name": "gpu", "rate": FailureRate.counted([(1, 40)], 2000, "test")}]
    whole = {
        "rate": rate,
        "machine_rate": machines,
        "partitions": partitions,
        "attempts": {"wait_median_s": 900.0},
        "more": 1,
    }
    return msgspec.json.encode({**whole, **changes})


def test_a_counted_rate_with_its_interval_and_the_wait() -> None:
    found = counted_failures(history(), "h.json")
    assert found.failures.per_1000_node_days == pytest.approx(6.5)
    assert found.wait_s == 900
    assert "13 failures in 2,000 node-days, 95 %: 3.46 to 11.1" in found.failures.source


def test_a_rate_that_is_roughly_known_says_what_that_leaves_open() -> None:
    failures = counted_failures(history(), "h.json").failures
    s = Situation(save=SaveCost(3.0, 20.0), save_source="test", failures=failures, nodes=100)
    [doubt] = answer(s, solve(s), Cluster()).doubts
    assert doubt.startswith("the failure rate is roughly known: at its ends the best is every ")
    many = counted_failures(history(rate=FailureRate.counted([(1, 1300)], 200_000, "test")), "h.json").failures
    sure = Situation(save=SaveCost(3.0, 20.0), save_source="test", failures=many, nodes=100)
    assert answer(sure, solve(sure), Cluster()).doubts == []


def test_a_partition_has_a_rate_of_its_own() -> None:
    assert counted_failures(history(), "h.json", "gpu").failures.per_1000_node_days == pytest.approx(20)
    with pytest.raises(UsageError, match="tells of gpu"):
        counted_failures(history(), "h.json", "cpu")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"x": ' + b"[" * 10_000, "not JSON"),
        (b"[1, 2]", "no history"),
        (b'{"job": "/runs/x", "attempts": []}', "no history"),
        (b'{"rate": 6.5}', "no history"),
        (b'{"rate": null}', "nothing ran"),
        (
            history(rate={"per_1000_node_days": -1, "low": 0, "high": 1, "failures": 1, "node_days": 1, "source": ""}),
            "h.json",
        ),
    ],
)
def test_a_file_of_another_shape_is_refused(data: bytes, word: str) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        counted_failures(data, "h.json")
    assert "h.json" in str(caught.value)


def test_no_failure_is_no_rate_and_says_what_to_plan_with() -> None:
    nothing = history(rate=FailureRate.counted([], 2000, "test"))
    with pytest.raises(UsageError, match="no failure in 2,000 node-days") as caught:
        counted_failures(nothing, "h.json")
    assert "--failures 1.8" in str(caught.value)


def plan() -> PlanAnswer:
    s = Situation(save=SaveCost(1.0, 10.0), save_source="test", failures=Failures(mtti_s=86400.0))
    return answer(s, solve(s), Cluster())


def test_a_plan_comes_back() -> None:
    written = plan()
    assert read_plan(msgspec.json.encode(written), "plan.json") == written.submit


def test_a_member_of_a_later_plan_does_not_matter() -> None:
    later = {**msgspec.to_builtins(plan()), "news": 1}
    assert read_plan(msgspec.json.encode(later), "plan.json") == plan().submit


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"version": 2}, FormatVersionError, "version 2"),
        ({"format": "a song"}, UsageError, "not a plan"),
        ({"submit": {}}, DamagedError, "damaged"),
        ({"submit": None}, DamagedError, "damaged"),
    ],
)
def test_another_file_is_refused(change: dict[str, object], error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        read_plan(msgspec.json.encode({**msgspec.to_builtins(plan()), **change}), "plan.json")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b'{"version": "1"}', b'{"x": ' + b"[" * 10_000])
def test_no_plan_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"plan\.json"):
        read_plan(data, "plan.json")


@pytest.mark.parametrize(
    "change",
    [{"grace_s": -1}, {"mtti_s": 0}, {"segments": 0}, {"segments": 100_000}, {"lead_s": -5}, {"grace_s": 1e12}],
)
def test_impossible_numbers_are_refused(change: dict[str, object]) -> None:
    whole = msgspec.to_builtins(plan())
    whole["submit"] = {**whole["submit"], **change}
    with pytest.raises(DamagedError):
        read_plan(msgspec.json.encode(whole), "plan.json")
