"""What to use and what not, by what is known of the cluster; the warning window; how many runs the work takes."""

import msgspec
import pytest

from lastgood.core.errors import UsageError
from lastgood.core.interval_choice import SaveCost
from lastgood.plan.answer import answer
from lastgood.plan.mechanisms import CHAIN, Cluster, Mechanism, Verdict, mechanisms_of
from lastgood.plan.situation import Failures, Situation
from lastgood.plan.solve import solve
from lastgood.plan.window import segments_of, window_of

DAY = 86400.0


def situation(**changes: object) -> Situation:
    values = {
        "save": SaveCost(3.0, 120.0, 10**9),
        "save_source": "test",
        "failures": Failures(per_1000_node_days=6.5, others_per_day=1.0),
        "nodes": 4,
        "limit_s": DAY,
        "work_s": 10 * DAY,
        **changes,
    }
    return Situation(**values)  # type: ignore[arg-type]


def chosen(s: Situation, cluster: Cluster) -> dict[str, Mechanism]:
    solved = solve(s)
    window = window_of(s, solved)
    found = mechanisms_of(s, solved, window, segments_of(s, solved, window), cluster)
    assert all(one.reason for one in found), "each has its reason"
    assert [one.verdict for one in found] == sorted((one.verdict for one in found), key=list(Verdict).index)
    return {one.name: one for one in found}


def test_the_window_is_two_writes_a_step_and_what_slurm_may_be_off() -> None:
    s = situation(step_s=7.0)
    window = window_of(s, solve(s))
    assert (window.grace_s, window.lead_s) == (2 * 120 + 7 + 5, 2 * 120 + 7 + 5 + 60)


def test_a_stop_gets_half_a_minute_also_where_a_write_takes_none() -> None:
    s = situation(save=SaveCost(0.01, 0.1))
    assert (window_of(s, solve(s)).grace_s, window_of(s, solve(s)).lead_s) == (30, 90)


def test_a_limit_that_leaves_no_work_is_refused() -> None:
    s = situation(limit_s=300.0)
    with pytest.raises(UsageError, match="leaves no time for work"):
        window_of(s, solve(s))


def test_runs_end_at_the_limit_or_before() -> None:
    quiet = situation(failures=Failures(mtti_s=1e9), queue_s=600.0)
    solved = solve(quiet)
    found = segments_of(quiet, solved, window_of(quiet, solved))
    assert found is not None
    # 10 days, in jobs that lose the lead and a minute each.
    assert found.count == 11
    assert found.wall_s - found.run_s == pytest.approx(11 * 600)
    busy = situation(failures=Failures(mtti_s=DAY / 4))
    solved = solve(busy)
    more = segments_of(busy, solved, window_of(busy, solved))
    assert more is not None
    assert 40 < more.count < 46, "four interruptions a day, and hardly a limit is reached"
    assert more.run_s > found.run_s


def test_the_queue_is_no_running_time() -> None:
    found = []
    for queue in (0.0, 7200.0):
        s = situation(queue_s=queue)
        found.append(segments_of(s, solve(s), window_of(s, solve(s))))
    at_once, waiting = found
    assert at_once is not None and waiting is not None
    assert waiting.run_s == pytest.approx(at_once.run_s, rel=1e-9)
    assert waiting.wall_s - waiting.run_s == waiting.count * 7200


def test_without_work_no_runs_are_counted() -> None:
    s = situation(work_s=None)
    assert segments_of(s, solve(s), window_of(s, solve(s))) is None


def test_nobody_queues_a_hundred_thousand_segments() -> None:
    s = situation(limit_s=3600.0, work_s=3650 * DAY)
    found = chosen(s, Cluster(may_requeue=False))[CHAIN]
    assert (found.verdict, found.setting) == (Verdict.LEAVE, "")
    assert answer(s, solve(s), Cluster(may_requeue=False)).submit.segments is None


def test_requeue_is_used_unless_the_cluster_cancels_or_is_said_to_have_none() -> None:
    assert chosen(situation(), Cluster())["requeue"].verdict is Verdict.USE
    assert chosen(situation(), Cluster(preempts_by="CANCEL"))["requeue"].verdict is Verdict.LEAVE
    assert chosen(situation(), Cluster(may_requeue=False))["requeue"].verdict is Verdict.LEAVE


def test_a_chain_is_used_only_where_nothing_is_requeued() -> None:
    assert chosen(situation(), Cluster())[CHAIN].verdict is Verdict.LEAVE
    chain = chosen(situation(), Cluster(may_requeue=False))[CHAIN]
    assert chain.verdict is Verdict.USE
    assert "--segments" in chain.setting
    assert "afterany, never afterok" in chain.reason
    assert "--work" in chosen(situation(work_s=None), Cluster(may_requeue=False))[CHAIN].reason


@pytest.mark.parametrize(
    ("codes", "verdict", "word"),
    [
        (None, Verdict.USE, "--policy"),
        (frozenset({75}), Verdict.USE, "lists 75"),
        (frozenset({1, 99}), Verdict.USE, "lists 1,99"),
        (frozenset(), Verdict.ASK, "lists nothing"),
    ],
)
def test_requeue_exit(codes: frozenset[int] | None, verdict: Verdict, word: str) -> None:
    found = chosen(situation(), Cluster(requeue_codes=codes))["RequeueExit"]
    assert found.verdict is verdict
    assert word in found.reason


@pytest.mark.parametrize(
    ("cluster", "verdict", "word"),
    [
        (Cluster(), Verdict.ASK, "must leave"),
        (Cluster(kill_wait_s=30.0), Verdict.ASK, "KillWait leaves 30 s"),
        (Cluster(kill_wait_s=30.0, grace_s=60.0), Verdict.ASK, "GraceTime leaves 60 s"),
        (Cluster(kill_wait_s=30.0, grace_s=600.0), Verdict.USE, "GraceTime leaves 10 min"),
    ],
)
def test_the_grace_time_against_what_a_stop_needs(cluster: Cluster, verdict: Verdict, word: str) -> None:
    found = chosen(situation(), cluster)["GraceTime"]
    assert found.verdict is verdict
    assert word in found.reason


def test_the_exempt_window_is_one_start_one_interval_one_write() -> None:
    s = situation(restart_s=60.0)
    least_s = 60 + solve(s).interval_s + 120
    asked = chosen(s, Cluster())["exempt window"]
    assert (asked.verdict, asked.setting) == (Verdict.ASK, "PreemptExemptTime=00:23:00")
    assert 22 * 60 < least_s <= 23 * 60
    assert chosen(s, Cluster(exempt_s=60.0))["exempt window"].verdict is Verdict.ASK
    assert chosen(s, Cluster(exempt_s=7200.0))["exempt window"].verdict is Verdict.USE
    assert chosen(s, Cluster(preempts_by="OFF"))["exempt window"].verdict is Verdict.LEAVE
    alone = situation(failures=Failures(per_1000_node_days=6.5))
    assert chosen(alone, Cluster())["exempt window"].verdict is Verdict.LEAVE, "nobody said that it is preempted"


def test_one_rank_needs_no_kill_on_bad_exit() -> None:
    assert chosen(situation(nodes=1), Cluster())["kill-on-bad-exit"].verdict is Verdict.LEAVE
    assert chosen(situation(), Cluster())["kill-on-bad-exit"].verdict is Verdict.USE
    assert chosen(situation(), Cluster(kills_on_bad_exit=True))["kill-on-bad-exit"].setting == ""


def test_no_limit_no_signal() -> None:
    assert chosen(situation(limit_s=None), Cluster())["signal lead"].verdict is Verdict.LEAVE
    assert chosen(situation(), Cluster())["signal lead"].setting == "--signal=B:USR1@305"


def test_the_storage_that_was_chosen_is_compared_with_the_others() -> None:
    found = chosen(situation(), Cluster())["save asynchronous shared"]
    assert "synchronous shared" in found.reason


def test_replication_is_not_offered_and_says_so() -> None:
    assert "not timed" in chosen(situation(), Cluster())["replicated in memory"].reason
    assert "replicated in memory" not in chosen(situation(nodes=1), Cluster())


def test_staging_says_why_not() -> None:
    assert "not timed" in chosen(situation(), Cluster())["staging"].reason
    assert "one node only" in chosen(situation(local_write_s=5.0), Cluster())["staging"].reason
    local = situation(
        nodes=1,
        local_write_s=5.0,
        save=SaveCost(2.0, 900.0),
        failures=Failures(per_1000_node_days=1, others_per_day=10),
    )
    assert "(--same-nodes)" in chosen(local, Cluster())["staging"].reason, "a requeue may go anywhere"
    local = msgspec.structs.replace(local, same_nodes=0.9)
    assert chosen(local, Cluster())["staging"].verdict is Verdict.USE


def test_what_submit_takes() -> None:
    plan = answer(situation(), solve(situation()), Cluster()).submit
    assert (plan.grace_s, plan.lead_s, plan.limit_s, plan.nodes) == (245, 305, DAY, 4)
    assert (plan.may_requeue, plan.segments) == (True, None)
    assert plan.is_auto_enough
    chained = answer(situation(), solve(situation()), Cluster(may_requeue=False)).submit
    assert not chained.may_requeue
    assert chained.segments is not None and chained.segments > 10
    assert "requeue" in chained.excluded


@pytest.mark.parametrize("changes", [{"most_lost_s": 300.0}, {"every_s": 100.0}, {"max_bytes_per_s": 1e5}])
def test_auto_is_not_enough_where_it_would_come_to_another_interval(changes: dict[str, object]) -> None:
    s = situation(**changes)
    assert not answer(s, solve(s), Cluster()).submit.is_auto_enough
