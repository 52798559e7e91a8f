"""The figures of an accounting, against the same count in plain Python; and what counts as one event."""

import random
from collections import Counter
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.core.reliability import FailureRate
from lastgood.plan.history.exposure import Window, moment_of
from lastgood.plan.history.figures import figures_of
from plan.sacct_file import COLUMNS, DAY, figures, read, run, text_of

BEGIN = datetime(2026, 1, 1)
FAILURES = ("NODE_FAIL", "PREEMPTED", "REQUEUED", "BOOT_FAIL")
STATES = (*FAILURES, "COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED by 5", "RUNNING")


def row(job, state, start_s, run_s, nodes=1, *, gpus=0, partition="p", submit_s=None, node_list="n1", code="0:0"):
    def at(seconds):
        return (BEGIN + timedelta(seconds=seconds)).isoformat()

    tres = f"cpu=1,gres/gpu={gpus}" if gpus else "cpu=1"
    return run(
        JobID=str(job), State=state, ExitCode=code, Submit=at(start_s if submit_s is None else submit_s),
        Start=at(start_s), End="Unknown" if state == "RUNNING" else at(start_s + run_s), ElapsedRaw=str(run_s),
        NNodes=str(nodes), NodeList=node_list, AllocTRES=tres, Partition=partition,
    )  # fmt: skip


def some_rows(seed, count=60):
    """Jobs with one run or more, none of them short."""
    draw = random.Random(seed)
    rows = []
    for job in range(1, count + 1):
        now = draw.randrange(0, 40 * 86400)
        for _ in range(draw.choice([1, 1, 2, 4])):
            state = draw.choice(STATES)
            run_s, nodes = draw.randrange(100, 200_000), draw.randrange(1, 9)
            rows.append(row(job, state, now, run_s, nodes, gpus=4 * draw.randrange(3), partition=draw.choice("abc")))
            now += run_s + draw.randrange(1, 10_000)
    draw.shuffle(rows)
    return rows


@settings(max_examples=15)
@given(st.integers(0, 10**9))
def test_the_figures_are_those_of_a_plain_count(seed):
    rows = some_rows(seed)
    answer = figures(*rows)
    failed = [r for r in rows if r["State"] in FAILURES]

    def node_s(rows):
        return sum(int(r["ElapsedRaw"]) * int(r["NNodes"]) for r in rows)

    def gpu_s(rows):
        return sum(int(r["ElapsedRaw"]) * int(r["AllocTRES"].partition("gpu=")[2] or 0) for r in rows)

    assert (answer.runs, answer.rows) == (len(rows), len(rows))
    assert answer.node_days == pytest.approx(node_s(rows) / 86400)
    assert answer.gpu_hours == pytest.approx(gpu_s(rows) / 3600)
    assert answer.rate.failures == len(failed)
    assert answer.rate.per_1000_node_days == pytest.approx(1000 * len(failed) / answer.node_days)
    assert answer.lost_node_hours == pytest.approx(node_s(failed) / 3600)
    assert answer.lost_gpu_hours == pytest.approx(gpu_s(failed) / 3600)
    runs = Counter(r["JobID"] for r in rows)
    assert (answer.attempts.jobs, answer.attempts.most) == (len(runs), max(runs.values()))
    assert answer.attempts.restarted_jobs == sum(n > 1 for n in runs.values())
    assert answer.attempts.jobs_by_runs == {str(n): count for n, count in sorted(Counter(runs.values()).items())}
    for group in answer.partitions:
        own = [r for r in rows if r["Partition"] == group.name]
        assert (group.runs, group.failures) == (len(own), sum(r["State"] in FAILURES for r in own))
        assert group.node_days == pytest.approx(node_s(own) / 86400)
        assert sum(group.causes.values()) == group.failures
    for figure in (answer.partitions, answer.gpu_types):
        assert sum(g.runs for g in figure) == answer.runs
        assert sum(g.lost_node_hours for g in figure) == pytest.approx(answer.lost_node_hours)
    assert sum(e.runs for e in answer.endings) == answer.runs
    assert sum(p.failures for p in answer.trend) == answer.rate.failures
    assert sum(p.node_days for p in answer.trend) == pytest.approx(answer.node_days)
    assert sum(p.lost_node_hours for p in answer.trend) == pytest.approx(answer.lost_node_hours)


@settings(max_examples=15)
@given(st.integers(0, 10**9), st.integers(0, 50 * 86400), st.integers(3600, 20 * 86400))
def test_in_a_window_only_what_ran_and_failed_in_it_counts(seed, since_s, length_s):
    rows = some_rows(seed, 30)
    since = moment_of(BEGIN + timedelta(seconds=since_s), is_epoch=False)
    answer = figures(*rows, window=Window(since, since + length_s))
    node_s = failures = 0
    for r in rows:
        start = (datetime.fromisoformat(r["Start"]) - BEGIN).total_seconds()
        end = start + int(r["ElapsedRaw"])
        node_s += max(min(end, since_s + length_s) - max(start, since_s), 0) * int(r["NNodes"])
        failures += r["State"] in FAILURES and since_s <= end <= since_s + length_s
    assert answer.node_days * 86400 == pytest.approx(node_s)
    assert (answer.rate.failures if answer.rate else 0) == failures


def test_windows_side_by_side_make_the_whole():
    rows = some_rows(7, 200)
    whole = figures(*rows)
    cut = moment_of(datetime(2026, 1, 15, 3, 4, 5), is_epoch=False)
    parts = [figures(*rows, window=Window(None, cut)), figures(*rows, window=Window(cut + 1, None))]
    assert sum(part.rate.failures for part in parts) == whole.rate.failures
    # The one second between them.
    assert sum(part.node_days for part in parts) == pytest.approx(whole.node_days, rel=1e-3)


def test_the_order_of_the_rows_and_a_row_that_is_there_twice_change_nothing():
    rows = some_rows(11)
    once = figures(*rows)
    twice = figures(*reversed(rows), *rows[::2])
    assert twice.duplicate_rows == len(rows[::2])
    for name in ("runs", "node_days", "rate", "endings", "attempts", "trend"):
        assert getattr(twice, name) == getattr(once, name), name


def test_of_a_run_in_two_dumps_the_later_one_counts():
    """The first was made while it ran."""
    answer = figures(row(1, "RUNNING", 0, 100), row(1, "NODE_FAIL", 0, 7200))
    assert (answer.runs, answer.duplicate_rows, answer.rate.failures) == (1, 1, 1)
    assert answer.node_days == pytest.approx(7200 / 86400)


def test_a_number_that_slurm_gives_again_is_another_job():
    answer = figures(row(1, "NODE_FAIL", 0, 100), row(1, "COMPLETED", 300 * 86400, 100))
    assert (answer.attempts.jobs, answer.attempts.failures_restarted) == (2, 0)


def test_how_long_jobs_wait_for_their_restart():
    answer = figures(
        row(1, "NODE_FAIL", 0, 1000), row(1, "PREEMPTED", 1600, 1000), row(1, "COMPLETED", 2900, 1000),
        row(2, "NODE_FAIL", 0, 1000),
        row(3, "TIMEOUT", 0, 1000), row(3, "COMPLETED", 99999, 1000),
    )  # fmt: skip
    a = answer.attempts
    assert (a.failures, a.failures_restarted, a.wait_total_s, a.wait_median_s) == (3, 2, 900, 450)
    assert (a.restarted_jobs, a.most, a.jobs_by_runs) == (2, 3, {"1": 1, "2": 1, "3": 1})


def test_without_an_end_the_wait_is_from_the_submission():
    rows = [row(1, "NODE_FAIL", 0, 1000), row(1, "COMPLETED", 1600, 1000, submit_s=1010)]
    answer = figures(*rows, columns=[name for name in COLUMNS if name != "End"])
    assert answer.attempts.wait_median_s == 590


def test_a_file_without_duplicates_is_known_by_it():
    assert read(text_of([DAY, run(JobID="2")])).attempts_are_missing
    assert not read(text_of(some_rows(1))).attempts_are_missing


@pytest.mark.parametrize("state", ["PREEMPTED", "REQUEUED"])
def test_a_run_that_ended_before_the_accounting_heard_of_its_start(state):
    """As Slurm 22.05 has it: no start and no length, but nodes."""
    first = {**row(1, state, 100, 0), "Start": "None"}
    answer = figures(first, row(1, "COMPLETED", 110, 5000))
    assert (answer.rate.failures, answer.not_started) == (1, 0)
    assert (answer.attempts.failures_restarted, answer.attempts.wait_median_s) == (1, 10)


def test_a_job_that_was_cancelled_in_its_first_second_has_run():
    answer = figures(row(1, "CANCELLED by 0", 100, 0), {**row(2, "CANCELLED", 100, 0), "NodeList": "None assigned"})
    assert (answer.runs, answer.not_started) == (1, 1)


# What is lost


def test_all_is_lost_where_nothing_says_that_it_was_saved():
    answer = figures(row(1, "NODE_FAIL", 0, 36000, 10))
    assert answer.lost_node_hours == 100
    assert "all that a failed run had done is lost" in answer.assumption


@pytest.mark.parametrize("run_s, lost_s", [(36000, 900), (1801, 900), (1799, 1799), (60, 60)])
def test_with_saves_half_an_interval_is_lost_or_all_of_a_shorter_run(run_s, lost_s):
    answer = figures(row(1, "NODE_FAIL", 0, run_s, 10), saved_every_s=1800)
    assert answer.lost_node_hours == pytest.approx(10 * lost_s / 3600)
    assert "each 30 min 0 s" in answer.assumption


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED by 0", "DEADLINE"])
def test_other_ends_are_no_loss_by_failures(state):
    assert figures(row(1, state, 0, 36000)).lost_node_hours == 0


# Events


def test_an_array_whose_tasks_die_at_once_is_one_event():
    tasks = [row(f"5_{n}", "FAILED", n, 4, code="1:0") for n in range(256)]
    answer = figures(*tasks, row(6, "FAILED", 0, 9000, code="2:0"))
    (failed,) = answer.endings
    assert (failed.runs, failed.events) == (257, 2)
    assert [(c.exit_code, c.runs, c.events) for c in answer.exit_codes] == [("1:0", 256, 1), ("2:0", 1, 1)]
    assert [(b.of, b.runs) for b in answer.bursts] == [("job 5", 256)]


def test_a_node_that_kills_what_it_gets_is_one_failure():
    killed = [row(n, "NODE_FAIL", 30 * n, 3, node_list="bad") for n in range(1, 41)]
    later = [row(n, "NODE_FAIL", 90000 + 30 * n, 3, node_list="bad") for n in range(50, 60)]
    answer = figures(*killed, *later, row(99, "COMPLETED", 0, 86400 * 10))
    assert answer.rate.failures == 2
    assert sorted(b.runs for b in answer.bursts) == [10, 40]
    assert answer.endings[-1].runs == 50


def test_a_job_that_is_requeued_every_few_seconds_is_one_failure():
    answer = figures(*[row(1, "REQUEUED", 100 * n, 5, node_list=f"n{n}") for n in range(35)])
    assert (answer.rate.failures, answer.attempts.most) == (1, 35)


def test_short_preemptions_of_one_array_on_several_days_are_several():
    answer = figures(*[row(f"5_{n}", "PREEMPTED", 86400 * n, 5) for n in range(6)])
    assert (answer.rate.failures, answer.bursts) == (6, [])


def test_a_mistake_that_an_array_makes_slowly_is_one():
    answer = figures(*[row(f"5_{n}", "FAILED", 86400 * n, 5) for n in range(6)])
    assert [(e.runs, e.events) for e in answer.endings] == [(6, 1)]


def test_two_short_failures_are_two():
    answer = figures(row(1, "NODE_FAIL", 0, 5), row(2, "NODE_FAIL", 100, 5))
    assert (answer.rate.failures, answer.bursts) == (2, [])


def test_long_runs_are_no_burst():
    answer = figures(*[row(f"5_{n}", "NODE_FAIL", 100_000 * n, 7200) for n in range(10)])
    assert (answer.rate.failures, answer.bursts) == (10, [])


def test_failures_of_one_moment_all_count_but_tell_less():
    """A switch that takes eight jobs with it, five times."""
    together = [
        row(10 * event + n, "NODE_FAIL", 100_000 * event, 7200 + n, node_list=f"n{n}")
        for event in range(1, 6)
        for n in range(8)
    ]
    answer = figures(*together)
    alone = FailureRate.counted([(1, 40)], answer.node_days, "")
    assert answer.rate.failures == 40
    assert answer.rate.low < alone.low < alone.high < answer.rate.high
    assert answer.rate.low == pytest.approx(8 * FailureRate.counted([(1, 5)], answer.node_days, "").low)
    assert answer.endings[0].events == 5


# Nodes


def test_a_node_is_suspected_only_where_luck_does_not_explain_it():
    """A hundred nodes, each with a job of a day each day; thirty failures by luck, and one bad node with eight more."""
    draw = random.Random(2)
    rows = [row(1000 * n + d, "COMPLETED", 86400 * d, 86000, node_list=f"n{n}") for n in range(100) for d in range(10)]
    rows += [row(200_000 + i, "NODE_FAIL", 86400 * i, 86000, node_list=f"n{draw.randrange(100)}") for i in range(30)]
    rows += [row(300_000 + i, "NODE_FAIL", 86400 * i + 500, 86000, node_list="n42") for i in range(8)]
    nodes = figures(*rows).nodes
    assert [node.name for node in nodes if node.is_suspect] == ["n42"]
    assert nodes[0].failures >= 8
    assert nodes[0].expected < 1
    assert nodes[0].chance < 1e-4
    assert all(node.chance > 0.01 for node in nodes[1:])


def test_two_failures_among_a_thousand_nodes_are_luck():
    rows = [row(n, "COMPLETED", 0, 86400, node_list=f"n{n}") for n in range(1, 1001)]
    rows += [row(5000 + i, "NODE_FAIL", 90000 * (i + 1), 43200, node_list=f"n{i % 39 + 1}") for i in range(40)]
    nodes = figures(*rows).nodes
    assert nodes[0].failures == 2
    assert not any(node.is_suspect for node in nodes)


def test_one_failure_is_never_enough():
    rows = [row(1, "COMPLETED", 0, 86400 * 300, 1, node_list="n1"), row(2, "NODE_FAIL", 0, 60, node_list="n2")]
    assert [node.is_suspect for node in figures(*rows).nodes] == [False]


def test_preemption_is_no_fault_of_a_node():
    assert figures(*[row(n, "PREEMPTED", 90000 * n, 80000) for n in range(5)]).nodes == []


def test_of_a_job_on_several_nodes_the_failed_one_must_be_told():
    rows = [row(n, "NODE_FAIL", 90000 * n, 80000, 2, node_list="n[1-2]") for n in range(1, 4)]
    silent = figures(*rows)
    assert silent.nodes == []
    assert any("3 of 3 failures are not counted" in note for note in silent.notes)
    told = figures(*[{**r, "FailedNode": "n2"} for r in rows], columns=[*COLUMNS, "FailedNode"])
    assert [(node.name, node.failures) for node in told.nodes] == [("n2", 3)]
    assert told.nodes[0].node_days == pytest.approx(3 * 80000 / 86400)


def test_jobs_that_a_node_takes_with_it_are_one_failure_of_it():
    rows = [row(n, "NODE_FAIL", 0, 7200, node_list="n1") for n in range(1, 21)]
    answer = figures(*rows)
    assert (answer.nodes[0].failures, answer.rate.failures) == (1, 20)


# Trend


def test_a_long_run_is_divided_among_the_weeks():
    """From a Monday for three weeks."""
    days = 21
    answer = figures(run(Start="2026-03-02T00:00:00", End="2026-03-23T00:00:00", ElapsedRaw=str(86400 * days)))
    assert [(p.begin, p.node_days) for p in answer.trend] == [
        ("2026-03-02", 7), ("2026-03-09", 7), ("2026-03-16", 7), ("2026-03-23", 0),
    ]  # fmt: skip


def test_a_year_is_shown_by_month():
    rows = [row(n, "NODE_FAIL", 86400 * 10 * n, 86400) for n in range(36)]
    answer = figures(*rows)
    assert [p.begin for p in answer.trend][:3] == ["2026-01-01", "2026-02-01", "2026-03-01"]
    assert len(answer.trend) == 12


def test_the_source_of_a_rate_says_where_and_when():
    answer = figures_of(read(text_of([DAY])), "long command", told="sacct")
    assert answer.rate.source == "sacct, 2026-03-02 to 2026-03-03"
    assert answer.source == "long command"
