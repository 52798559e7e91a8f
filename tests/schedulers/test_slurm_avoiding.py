"""Keeping a job away from nodes, against the model of Slurm: by a requeue and a change, or by a change of what waits."""

from collections.abc import Mapping, Sequence

import pytest

from lastgood.schedulers.slurm import SlurmScheduler
from lastgood.schedulers.slurm_avoiding import may_avoid
from lastgood.schedulers.slurm_commands import Answer
from lastgood.schedulers.slurm_segments import Segments
from schedulers.slurm_model import SCRIPT, Queued, SlurmModel


class Changing(SlurmModel):
    """It takes new lists of excluded nodes where Slurm does: for jobs that wait."""

    excluded: tuple[str, str] = ("", "")
    shown_excluded = "(null)"
    is_refusing = False

    def run(self, words: Sequence[str], environment: Mapping[str, str], limit_s: float) -> Answer:
        if words[:2] != ["scontrol", "update"]:
            return super().run(words, environment, limit_s)
        job_id = words[2].removeprefix("JobId=")
        if self.is_refusing or (job_id == "7" and not self._is_requeued):
            return Answer(1, "", f"Job is no longer pending execution for job {job_id}\n")
        self.excluded = (job_id, words[3])
        return Answer(0, "", "")

    def _shown(self, job_id: str) -> str:
        return (
            super()
            ._shown(job_id)
            .replace(" NumNodes=", f" ReqNodeList=(null) ExcNodeList={self.shown_excluded} NumNodes=")
        )


def launcher(model: Changing, said: list[str]) -> SlurmScheduler:
    environment = {"SLURM_JOB_ID": "7", "LASTGOOD_CHAIN": "c"}
    commands = model.commands(environment)
    segments = Segments(commands, environment, is_chained=False)
    return SlurmScheduler(environment, commands, segments, said.append, time_limit_s=None, started=0.0)


@pytest.mark.parametrize("listed", ["75", ""])
def test_the_job_is_requeued_and_then_changed(listed: str) -> None:
    model = Changing(requeue_exit=listed)
    left = launcher(model, []).avoid(["n2"])
    assert left is not None and "on other nodes than n2" in left.message
    assert model.excluded == ("7", "ExcNodeList=n2")
    assert left.exit_code == 75
    assert model.starts(left.exit_code) == ["7"]


def test_what_the_user_excludes_stays_excluded() -> None:
    model = Changing()
    model.shown_excluded = "n3"
    launcher(model, []).avoid(["n2"])
    assert model.excluded == ("7", "ExcNodeList=n[2-3]")


def test_a_segment_that_waits_is_changed_where_it_is() -> None:
    model = Changing(queue=[Queued("8", "7", SCRIPT)])
    left = launcher(model, []).avoid(["n2"])
    assert left is not None
    assert model.excluded == ("8", "ExcNodeList=n2")
    assert model.starts(left.exit_code) == ["8"]


def test_a_change_that_is_refused_after_the_requeue_is_said() -> None:
    model, said = Changing(), []
    model.is_refusing = True
    left = launcher(model, said).avoid(["n2"])
    assert left is not None and "on any nodes" in left.message
    assert "may come back to n2" in said[-1]


def test_while_slurmctld_is_away_the_job_stays_where_it_is() -> None:
    model, said = Changing(), []
    scheduler = launcher(model, said)
    model.is_away_until = 1e9
    assert scheduler.avoid(["n2"]) is None
    assert model.excluded == ("", "")


def test_one_that_is_requeued_already_is_not_requeued_again() -> None:
    model = Changing()
    scheduler = launcher(model, [])
    model._requeue()
    assert scheduler.avoid(["n2"]) is None


def test_an_allocation_that_a_person_sits_in_is_not_left() -> None:
    assert launcher(Changing(is_batch=False), []).may_avoid() == 0


@pytest.mark.parametrize(
    ("shown", "of_partition", "expected"),
    [
        ({"NumNodes": "1"}, "4", 1),
        ({"NumNodes": "2-2"}, "12", 3),
        ({"NumNodes": "4"}, "4", 0),
        ({"NumNodes": "1", "ReqNodeList": "n1"}, "4", 0),
        ({"NumNodes": "2", "ExcNodeList": "n[3-4]"}, "4", 0),
        ({"NumNodes": "1", "ExcNodeList": "n3"}, "4", 1),
        ({"NumNodes": "1"}, "", 0),
        ({}, "4", 0),
    ],
)
def test_enough_nodes_are_left_for_the_job(shown: dict[str, str], of_partition: str, expected: int) -> None:
    assert may_avoid(shown, of_partition) == expected
