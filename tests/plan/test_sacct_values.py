"""Values in sacct's rows: every way to write them means the same, and what cannot be true is named with its line."""

import time

import pytest

from lastgood.plan.history.endings import ENDINGS, ending_of
from plan.sacct_file import COLUMNS, DAY, figures, read, run, text_of

FAILURES = {"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REQUEUED", "LAUNCH_FAILED"}
NO_FAILURES = {
    *("COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "CANCELLED", "CANCELLED by 1000"),
    *("CANCELLED by 0", "RUNNING", "SUSPENDED", "PENDING", "REVOKED", "COMPLETING", "CONFIGURING"),
}


@pytest.mark.parametrize("state", sorted(FAILURES | NO_FAILURES))
def test_every_state_counts_as_a_failure_or_does_not(state):
    answer = figures(run(State=state))
    counted = sum(ending.rate.failures for ending in answer.endings if ending.rate)
    assert counted == (state in FAILURES)
    assert (answer.rate.failures if answer.rate else 0) == counted


@pytest.mark.parametrize(
    "short, long",
    [
        *[("BF", "BOOT_FAIL"), ("CA", "CANCELLED"), ("CD", "COMPLETED"), ("DL", "DEADLINE"), ("F", "FAILED")],
        *[("NF", "NODE_FAIL"), ("OOM", "OUT_OF_MEMORY"), ("PD", "PENDING"), ("PR", "PREEMPTED"), ("R", "RUNNING")],
        *[("RQ", "REQUEUED"), ("RS", "RESIZING"), ("RV", "REVOKED"), ("S", "SUSPENDED"), ("TO", "TIMEOUT")],
        *[("CANCELLED+", "CANCELLED"), ("node_fail", "NODE_FAIL")],
    ],
)
def test_a_state_by_its_short_name(short, long):
    assert ending_of(short) == ending_of(long) is not None


def test_a_cancellation_by_root_is_told_apart():
    answer = figures(run(State="CANCELLED by 0"), run(JobID="2", State="CANCELLED by 100"))
    assert [(e.name, e.runs) for e in answer.endings] == [("cancelled", 1), ("cancelled by root", 1)]
    assert [note for note in answer.notes if "root cancelled 1 of the runs, of 24 node-hours" in note]


@pytest.mark.parametrize("code", ["0:9", "0:15", "137:0", "9:0"])
def test_the_state_wins_over_the_code(code):
    assert [e.name for e in figures(run(State="COMPLETED", ExitCode=code)).endings] == ["completed"]
    assert [e.name for e in figures(run(State="PREEMPTED", ExitCode=code)).endings] == ["preempted"]


@pytest.mark.parametrize("code, name", [("0:0", "requeued"), ("0:15", "requeued"), ("75:0", "asked to run again")])
def test_a_requeue_that_the_job_asked_for_is_no_failure(code, name):
    answer = figures(run(State="REQUEUED", ExitCode=code))
    assert [e.name for e in answer.endings] == [name]
    assert answer.rate.failures == (name == "requeued")


@pytest.mark.parametrize(
    "reason, name",
    [("JobLaunchFailure", "launch failure"), ("NonZeroExitCode", "program error"), ("", "program error")],
)
def test_a_failure_whose_reason_is_the_node_is_of_the_machine(reason, name):
    answer = figures({**run(State="FAILED", ExitCode="1:0"), "Reason": reason}, columns=[*COLUMNS, "Reason"])
    assert [e.name for e in answer.endings] == [name]
    assert answer.machine_rate.failures == (name == "launch failure")


@pytest.mark.parametrize(
    "elapsed, seconds",
    [("00:00:01", 1), ("01:02:03", 3723), ("1-02:03:04", 93784), ("10-00:00:00", 864000), ("02:03", 123)],
)
def test_a_duration_in_words_is_that_in_seconds(elapsed, seconds):
    row = {**run(End="2026-03-22T00:00:00", ElapsedRaw=str(seconds)), "Elapsed": elapsed}
    by_word = figures(row, columns=[name if name != "ElapsedRaw" else "Elapsed" for name in COLUMNS])
    assert by_word.node_days == figures(row).node_days == pytest.approx(seconds / 86400)


def test_without_a_duration_it_is_from_the_start_to_the_end():
    assert figures(DAY, columns=[name for name in COLUMNS if name != "ElapsedRaw"]).node_days == 1
    assert figures(run(ElapsedRaw="")).node_days == 1


def test_times_in_seconds_are_the_same_runs():
    seconds = {
        name: str(int(time.mktime(time.strptime(DAY[name], "%Y-%m-%dT%H:%M:%S"))))
        for name in ("Submit", "Start", "End")
    }
    one, other = figures(run(State="NODE_FAIL")), figures(run(State="NODE_FAIL", **seconds))
    assert (one.begin, one.end, one.trend, one.rate) == (other.begin, other.end, other.trend, other.rate)
    assert one.begin == "2026-03-02T00:00:00"


def test_a_blank_between_day_and_time():
    assert figures(run(Start="2026-03-02 00:00:00")).begin == "2026-03-02T00:00:00"


@pytest.mark.parametrize("nothing", ["Unknown", "None", "N/A", "", "0"])
def test_a_run_that_has_not_ended_counts_for_as_long_as_it_runs(nothing):
    answer = figures(run(State="RUNNING", End=nothing), run(JobID="2", State="NODE_FAIL"))
    assert (answer.node_days, answer.runs, answer.not_understood) == (2, 2, [])


@pytest.mark.parametrize("state", ["PENDING", "CANCELLED by 1000", "CANCELLED", "DEADLINE"])
def test_a_job_that_never_ran_is_no_run(state):
    waiting = run(
        JobID="7_[5-9%2]", State=state, Start="Unknown", End="Unknown", ElapsedRaw="0", NodeList="None assigned"
    )
    answer = figures(DAY, waiting)
    assert (answer.runs, answer.not_started, answer.attempts.jobs) == (1, 1, 1)


@pytest.mark.parametrize("step", ["1.batch", "1.extern", "1.0", "1_4.batch", "1+0.extern", "1_4.interactive"])
def test_rows_of_steps_say_nothing_more(step):
    answer = figures(DAY, run(JobID=step, State="FAILED", NNodes="50"))
    assert (answer.runs, answer.step_rows, answer.node_days) == (1, 1, 1)


def test_tasks_of_an_array_and_parts_of_a_job_are_runs_of_their_own():
    rows = [run(JobID=name) for name in ("5", "5_1", "5_2", "6+0", "6+1")]
    answer = figures(*rows)
    assert (answer.runs, answer.attempts.jobs, answer.attempts.restarted_jobs) == (5, 5, 0)


@pytest.mark.parametrize(
    "values, what, shows",
    [
        ({"JobID": "abc"}, "no number of a job", "JobID 'abc'"),
        ({"JobID": ""}, "no number of a job", "JobID ''"),
        ({"JobID": "9" * 30}, "no number of a job", "'9999"),
        ({"State": "DONE"}, "a state that Slurm does not have", "State 'DONE'"),
        ({"State": ""}, "a state that Slurm does not have", "State ''"),
        ({"Start": "02.03.2026"}, "a time that is none", "Start '02.03.2026'"),
        ({"Start": "2026-02-30T00:00:00"}, "a time that is none", "'2026-02-30T00:00:00'"),
        ({"Submit": "-5"}, "a time that is none", "Submit '-5'"),
        ({"End": "1772000000"}, "of another kind than the first", "End '1772000000'"),
        ({"ElapsedRaw": "-86400"}, "a duration that is none", "ElapsedRaw '-86400'"),
        ({"ElapsedRaw": "INVALID"}, "a duration that is none", "ElapsedRaw 'INVALID'"),
        ({"ElapsedRaw": "1e9"}, "a duration that is none", "ElapsedRaw '1e9'"),
        ({"ElapsedRaw": "99999999999", "Start": "", "End": ""}, "more than 20 years", "'99999999999'"),
        ({"End": "2026-03-01T00:00:00"}, "it ended before it began", "End '2026-03-01T00:00:00'"),
        (
            {"ElapsedRaw": "", "End": "2026-03-01T23:59:59"},
            "nothing tells how long it ran",
            "End '2026-03-01T23:59:59'",
        ),
        ({"ElapsedRaw": "864000"}, "longer than from its start to its end", "ElapsedRaw '864000'"),
        ({"State": "RUNNING", "ElapsedRaw": "", "End": "Unknown"}, "nothing tells how long it ran", "End 'Unknown'"),
        ({"NNodes": "0"}, "nothing tells on how many nodes it ran", "NNodes '0'"),
        ({"NNodes": "-1"}, "nodes", "NNodes '-1'"),
        ({"NNodes": "many"}, "nodes", "NNodes 'many'"),
        ({"NNodes": "4294967294"}, "more than 1,000,000 nodes", "NNodes '4294967294'"),
        ({"AllocTRES": "gres/gpu=99999999999"}, "more than 10,000,000 GPUs", "gres/gpu=99999999999"),
    ],
)
def test_what_cannot_be_true_is_left_out_and_shown_with_its_line(values, what, shows):
    answer = figures(DAY, run(JobID="2"), run(**values))
    assert (answer.runs, answer.node_days, answer.rows) == (2, 2, 3)
    (found,) = answer.not_understood
    assert what in found.what
    assert found.rows == 1
    assert found.examples[0].startswith("line 4: ")
    assert shows in found.examples[0]


def test_examples_are_few_and_the_count_is_whole():
    bad = [run(JobID=f"x{n}") for n in range(10)]
    (found,) = figures(*[run(JobID=str(n)) for n in range(1, 12)], *bad).not_understood
    assert (found.rows, len(found.examples)) == (10, 3)


def test_an_hour_that_a_clock_was_put_back_is_no_contradiction():
    """02:50 summer time to 02:10 winter time."""
    answer = figures(run(Start="2026-10-25T02:50:00", End="2026-10-25T02:10:00", ElapsedRaw="1200"))
    assert (answer.node_days, answer.not_understood) == (1200 / 86400, [])


@pytest.mark.parametrize(
    "columns, values",
    [
        (["NNodes"], {"NNodes": "4"}),
        (["AllocNodes"], {"AllocNodes": "4"}),
        (["AllocTRES"], {"AllocTRES": "cpu=1,node=4,mem=5G"}),
        (["NodeList"], {"NodeList": "a[1-2],b[07-08]"}),
    ],
)
def test_each_way_to_say_how_many_nodes(columns, values):
    columns = ["JobID", "State", "Start", "End", *columns]
    assert figures({**DAY, **values}, columns=columns).node_days == 4


@pytest.mark.parametrize(
    "tres, gpus, kind",
    [
        ("cpu=8,gres/gpu:a100=4,gres/gpu=4", 4, "a100"),
        ("cpu=8,gres/gpu=4", 4, "GPU of no stated type"),
        ("cpu=8,gres/gpu:a100=1,gres/gpu:v100=2", 3, "a100+v100"),
        ("cpu=8", 0, "no GPU"),
        ("gres/gpu:a100_3g.20gb=2,gres/gpu=2", 2, "a100_3g.20gb"),
    ],
)
def test_gpus_and_their_type(tres, gpus, kind):
    answer = figures(run(AllocTRES=tres))
    assert (answer.gpu_hours, [group.name for group in answer.gpu_types]) == (24 * gpus, [kind])


def test_only_what_was_asked_for_is_counted():
    rows = [run(), run(JobID="2", Partition="cpu"), run(JobID="3", Partition="cpu")]
    assert read(text_of(rows), only={"partition": ["cpu"]}).table.height == 2
    assert read(text_of(rows), only={"partition": ["cpu", "gpu"]}).table.height == 3


def test_the_codes_are_their_places():
    assert [ending.code for ending in ENDINGS] == list(range(len(ENDINGS)))
