"""The launcher under Slurm, against a model of it: for every cluster, queue and interruption exactly one starts the job
again, and nobody does where nobody is to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.handback import Interruption, Rules
from lastgood.schedulers.slurm import SlurmScheduler
from lastgood.schedulers.slurm_segments import Segments
from schedulers.slurm_model import AWAY, SCRIPT, Queued, SlurmModel

CHAIN = [Queued("8", "7", SCRIPT), Queued("9", "8", SCRIPT)]
TASKS = [Queued("7_2", "", SCRIPT), Queued("7_5", "", SCRIPT)]
STRANGER = Queued("12", "7", "/runs/x/evaluate.sh")
"""Waits for the job, too, to look at its results."""

ARRAY = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_MAX": "5"}
KINDS = {"alone": ([], {}), "chain": (CHAIN, {"LASTGOOD_CHAIN": "c"}), "array": (TASKS, ARRAY)}


def launcher(model: SlurmModel, environment: dict[str, str] | None = None) -> SlurmScheduler:
    given_ = {"SLURM_JOB_ID": "7", **(environment or {})}
    commands = model.commands(given_)
    is_chained = "SLURM_ARRAY_JOB_ID" in given_
    segments = Segments(commands, given_, is_chained=is_chained)
    said: list[str] = []
    scheduler = SlurmScheduler(
        given_, commands, segments, said.append, time_limit_s=None, started=0.0, is_chained=is_chained
    )
    scheduler.said = said  # type: ignore[attr-defined]
    return scheduler


def begin(kind: str, **cluster: object) -> tuple[SlurmModel, SlurmScheduler]:
    queue, environment = KINDS[kind]
    model = SlurmModel(queue=[*(Queued(q.name, q.behind, q.command) for q in queue), STRANGER], **cluster)  # type: ignore[arg-type]
    scheduler = launcher(model, environment)
    scheduler.before_attempt()
    return model, scheduler


def go_on(model: SlurmModel, code: int) -> list[str]:
    """Who goes on with the work when the job has ended with this code."""
    return [name for name in model.starts(code) if name != STRANGER.name]


CLUSTERS = st.fixed_dictionaries(
    {
        "may_requeue": st.booleans(),
        "requeue_exit": st.sampled_from(["", "75", "1,75", "90", "1,70,75,99", "75,3"]),
        "hold_exit": st.sampled_from(["", "75", "1,99"]),
    }
)
ENDINGS = [i for i in Interruption if i is not Interruption.UNKNOWN]


@given(st.sampled_from(sorted(KINDS)), CLUSTERS, st.sampled_from(ENDINGS), st.booleans())
def test_with_work_left_exactly_one_goes_on_unless_it_was_cancelled(
    kind: str, cluster: dict[str, object], ending: Interruption, is_unasked: bool
) -> None:
    model, scheduler = begin(kind, **cluster)
    model.ending = ending
    left = scheduler.hand_back(is_unasked=is_unasked)
    assert left.exit_code != 0
    assert len(go_on(model, left.exit_code)) == (ending is not Interruption.CANCELLED)
    assert STRANGER in model.queue


@given(st.sampled_from(sorted(KINDS)), CLUSTERS, st.sampled_from([0, 1, 3, 75, 82, 99, 130]))
def test_at_the_end_nobody_goes_on(kind: str, cluster: dict[str, object], code: int) -> None:
    model, scheduler = begin(kind, **cluster)
    left = scheduler.end(code)
    assert (left.exit_code == 0) == (code == 0)
    assert go_on(model, left.exit_code) == []
    assert model.queue == [STRANGER]


@given(st.sampled_from(sorted(KINDS)), CLUSTERS)
def test_while_slurmctld_is_away_what_it_was_told_before_holds(kind: str, cluster: dict[str, object]) -> None:
    """A stop by the clock: nobody has cancelled anything. It is back within a minute."""
    model, scheduler = begin(kind, **cluster)
    model.is_away_until = model.now + 40
    assert scheduler.interruption() == ""
    left = scheduler.hand_back(is_unasked=True)
    model.is_away_until = 0.0
    assert len(go_on(model, left.exit_code)) == 1


@given(st.sampled_from(sorted(KINDS)), CLUSTERS)
def test_asked_to_stop_while_slurmctld_is_away_it_does_not_requeue_what_may_be_cancelled(
    kind: str, cluster: dict[str, object]
) -> None:
    model, scheduler = begin(kind, **cluster)
    model.is_away_until = model.now + 500
    scheduler.interruption()
    began = model.now
    left = scheduler.hand_back(is_unasked=False)
    assert ["scontrol", "requeue", "7"] not in model.said
    if not any(words[0] == "sbatch" for words in model.said):
        # There may be as little as a part of KillWait left.
        assert model.now - began < 5
    # It was cancelled: Slurm asks no exit code, and what waits finds out from Slurm.
    model.ending = Interruption.CANCELLED
    assert "7" not in model.starts(left.exit_code)


def test_what_is_not_known_at_the_start_is_found_out_later() -> None:
    model = SlurmModel(requeue_exit="")
    model.is_away_until = 60.0
    scheduler = launcher(model)
    assert "is not known" in scheduler.said[0]  # type: ignore[attr-defined]
    model.now = 100.0
    left = scheduler.hand_back(is_unasked=True)
    assert model.starts(left.exit_code) == ["7"]


def test_a_partition_that_slurm_does_not_show_hides_nothing_else() -> None:
    model = SlurmModel(requeue_exit="")
    model.has_partition = False
    scheduler = launcher(model)
    assert "the partition main is not known" in scheduler.said[0]  # type: ignore[attr-defined]
    assert scheduler.rules == Rules(may_requeue=True)
    left = scheduler.hand_back(is_unasked=True)
    assert ["scontrol", "requeue", "7"] in model.said
    assert model.starts(left.exit_code) == ["7"]


@pytest.mark.parametrize("requeue_exit", ["", "75"])
def test_where_nothing_is_known_no_exit_code_is_claimed_to_start_it_again(requeue_exit: str) -> None:
    model = SlurmModel(requeue_exit=requeue_exit)
    model.is_away_until = 60.0
    scheduler = launcher(model)
    (introduced,) = scheduler.introduction(None)
    assert introduced.endswith("with work left it asks Slurm to requeue it (scontrol requeue)")
    answered = model.run

    def only_requeues(words, environment, limit_s):
        return AWAY if "show" in words else answered(words, environment, limit_s)

    scheduler._commands._run = only_requeues
    model.now = 100.0
    left = scheduler.hand_back(is_unasked=True)
    assert model.starts(left.exit_code) == ["7"]


def test_a_requeue_that_was_taken_although_the_answer_was_lost_is_no_reason_for_a_second_start() -> None:
    model, scheduler = begin("alone", requeue_exit="")
    answered = model.run

    def lost(words, environment, limit_s):
        answer = answered(words, environment, limit_s)
        return type(answer)(-15, "", "") if words[1] == "requeue" else answer

    scheduler._commands._run = lost
    left = scheduler.hand_back(is_unasked=True)
    assert model.starts(left.exit_code) == ["7"]
    assert not any(words[0] == "sbatch" for words in model.said)


def test_where_a_requeue_is_refused_a_segment_goes_on() -> None:
    model, scheduler = begin("alone", requeue_exit="")
    model.may_requeue = False
    left = scheduler.hand_back(is_unasked=True)
    assert "scontrol requeue did not work" in scheduler.said[-1]  # type: ignore[attr-defined]
    assert go_on(model, left.exit_code) == ["21"]


def test_a_segment_of_its_own_is_submitted_once() -> None:
    model, scheduler = begin("alone", may_requeue=False)
    scheduler.before_attempt()
    assert "Slurm job 21 waits behind this one" in scheduler.said[0]  # type: ignore[attr-defined]
    assert [one.name for one in model.queue] == ["12", "21"]
    (submitted,) = [words for words in model.said if words[:2] == ["sbatch", "--parsable"]]
    assert {
        "--dependency=afterany:7",
        "--export=ALL",
        "--time=01:00:00",
        "--no-requeue",
        "--output=/runs/x/slurm-%j.out",
        "--open-mode=append",
    } <= set(submitted)
    assert model.environments[-1]["LASTGOOD_CHAIN"] == "7"


def test_where_no_restarts_are_wanted_and_none_are_allowed_there_is_none() -> None:
    model = SlurmModel(may_requeue=False)
    environment = {"SLURM_JOB_ID": "7"}
    commands = model.commands(environment)
    segments = Segments(commands, environment, is_chained=False)
    scheduler = SlurmScheduler(environment, commands, segments, print, time_limit_s=None, started=0.0, may_submit=False)
    scheduler.before_attempt()
    left = scheduler.hand_back(is_unasked=True)
    assert model.starts(left.exit_code) == []
    assert left.message == "to go on, submit it again"


def test_a_task_of_an_array_goes_on_as_that_task() -> None:
    model = SlurmModel(may_requeue=False, queue=[])
    environment = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3"}
    commands = model.commands(environment)
    segments = Segments(commands, environment, is_chained=False)
    segments.ensure_own(commands.show_job("7"))
    (submitted,) = [words for words in model.said if words[:2] == ["sbatch", "--parsable"]]
    assert "--array=3" in submitted


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_where_a_person_took_what_waits_out_of_the_queue_nothing_takes_its_place(kind: str) -> None:
    model, scheduler = begin(kind, may_requeue=kind != "alone")
    model.queue = [STRANGER]
    left = scheduler.hand_back(is_unasked=True)
    assert go_on(model, left.exit_code) == []
    assert "taken out of the queue" in left.message


def test_tasks_that_have_gone_meanwhile_do_not_keep_the_others_in_the_queue() -> None:
    """scancel refuses a list of tasks of which one is gone."""
    model, scheduler = begin("array")
    answered = model.run

    def run(words, environment, limit_s):
        answer = answered(words, environment, limit_s)
        if words[-1] == "%K" and len(model.queue) == 3:
            model.queue = [one for one in model.queue if one.name != "7_2"]
        return answer

    scheduler._commands._run = run
    left = scheduler.end(0)
    assert model.queue == [STRANGER]
    assert left.message == "cancelled what waited to go on: 7_[5]"


def test_an_allocation_that_a_person_sits_in_is_left_to_that_person() -> None:
    model = SlurmModel(is_batch=False, may_requeue=False)
    scheduler = launcher(model)
    scheduler.before_attempt()
    left = scheduler.hand_back(is_unasked=True)
    assert (left.exit_code, left.message) == (75, "to go on, run the same command again")
    assert model.starts(left.exit_code) == []


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETING"])
def test_whether_an_earlier_segment_was_cancelled_is_asked_of_slurmctld(state: str) -> None:
    model = SlurmModel()
    scheduler = launcher(model)
    model.ending = Interruption.CANCELLED
    shown = model._shown
    model._shown = lambda job_id: shown(job_id).replace("COMPLETING", state)
    assert scheduler.was_cancelled("6") is (state == "CANCELLED")
