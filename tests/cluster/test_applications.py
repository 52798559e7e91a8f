"""GROMACS under the real Slurm: whatever ends it, it comes back and gives the bytes of an undisturbed run."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from apps.conftest import make_run_input, need  # noqa: F401 - a fixture

from .queue import queued
from .simulation import MDRUN, Simulation, cpu_of_children
from .slurm import SlurmCluster

STEPS = 8000
STEP = ("srun", "--ntasks=1", *MDRUN)
ON_THE_SECOND_NODE = ("srun", "--nodes=1", "--ntasks=1", "--relative=1", *MDRUN)
TWO_RANKS = (
    "mpirun",
    "--mca",
    "mpi_yield_when_idle",
    "1",
    "--bind-to",
    "none",
    "-np",
    "2",
    "gmx_mpi",
    "mdrun",
    "-ntomp",
    "1",
    "-reprod",
)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

Make = Callable[..., Simulation]


class Alone(NamedTuple):
    """A simulation when nothing happens to it and nobody of us is there."""

    directory: Path
    cpu_s: float
    """Of the machine's time, whatever else it did meanwhile."""


@pytest.fixture(scope="session")
def undisturbed(make_run_input: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Alone:  # noqa: F811
    place = tmp_path_factory.mktemp("alone")
    began = cpu_of_children()
    subprocess.run([*MDRUN, "-s", make_run_input(2.2, STEPS)], cwd=place, check=True, capture_output=True, timeout=300)
    return Alone(place, cpu_of_children() - began)


@pytest.fixture
def simulation(cluster: SlurmCluster, shared: Path, make_run_input: Callable[..., Path]) -> Make:  # noqa: F811
    """A simulation of that name."""

    def make(name: str, *command: str) -> Simulation:
        return Simulation(cluster, shared / name, make_run_input(2.2, STEPS), *command)

    return make


def test_preempted_with_and_without_grace_it_saves_and_loses_nothing(
    cluster: SlurmCluster, simulation: Make, undisturbed: Alone
) -> None:
    """At once: in the script, in a step of its own, and in a step where a time of grace goes before the end."""
    jobs = {
        # Those first that take longer to begin.
        "step with grace": (simulation("step with grace", *STEP), "grace"),
        "step": (simulation("step", *STEP), "main"),
        "plain": (simulation("plain"), "main"),
    }
    for node, (one, partition) in zip(cluster.nodes, jobs.values(), strict=False):
        one.submit(f"--partition={partition}", f"--nodelist={node}", "--time=10")
    for one, _ in jobs.values():
        one.wait_checkpoints()
    cluster.preempt(cluster.nodes[:3])
    for name, (one, _) in jobs.items():
        one.check_done(undisturbed.directory)
        assert one.outcomes() == ["preempted", "finished"], name
        assert "Received the TERM signal, stopping within" in one.text(), name
        assert "killing what is left" not in one.text(), name
        # What it saved when it was told to stop is what it goes on from.
        assert one.resumed_at(2) == one.events(1, "committed")[-1]["step"] > 0, name


def test_before_the_time_limit_it_stops_by_itself_and_goes_on_by_requeue_or_in_the_next_segment(
    cluster: SlurmCluster, simulation: Make, undisturbed: Alone
) -> None:
    """The limit is the shortest that there is, so the grace time is long: of a minute, a third of the simulation fits in."""
    requeued, chained = simulation("requeued"), simulation("chained", *STEP)
    grace = f"{59 - undisturbed.cpu_s / 3:.1f}s"
    requeued.submit("--time=1", "--grace", grace, "--nodelist=n1")
    chained.submit("--time=1", "--grace", grace, "--nodelist=n2", "--segments=30", "--no-requeue")
    requeued.check_done(undisturbed.directory)
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")
    chained.check_results(undisturbed.directory)
    for one in (requeued, chained):
        outcomes = one.outcomes()
        assert len(outcomes) > 1 and outcomes == ["time limit"] * (len(outcomes) - 1) + ["finished"], one.text()
        # Made of Slurm's limit, so that nobody has to tell it; the notice, which Slurm may give early, can still be first.
        assert "-maxh 0.00" in one.text()
        assert "killing what is left" not in one.text()


def test_a_node_dies_and_it_goes_on_elsewhere(cluster: SlurmCluster, simulation: Make, undisturbed: Alone) -> None:
    """At once: with the launcher beside it, and with the launcher on another node, which sees it."""
    plain, step = simulation("plain"), simulation("step", *ON_THE_SECOND_NODE)
    step.submit("--nodes=2", "--ntasks-per-node=1", "--exclude=n1", "--time=60")
    plain.submit("--exclude=n2,n3")
    for one in (plain, step):
        one.wait_checkpoints()
    for name in (cluster.nodes_of(plain.id)[0], cluster.nodes_of(step.id)[1]):
        cluster.kill_node(name)
        cluster.notice(name)
    for one in (plain, step):
        one.check_done(undisturbed.directory)
        assert one.resumed_at(2) > 0
    assert plain.outcomes() == ["", "finished"]
    # Slurm leaves the launcher some seconds: it may not get to write down how that ended, or try once more before them.
    *died, end = step.outcomes()
    assert end == "finished" and died and set(died) <= {"node failure", ""}


def test_a_rank_that_is_killed_is_started_again_in_the_same_allocation(
    cluster: SlurmCluster, simulation: Make, undisturbed: Alone
) -> None:
    plain, step = simulation("plain"), simulation("step", *STEP)
    for one in (step, plain):
        one.submit()
    for one in (plain, step):
        one.wait_checkpoints()
        (process,) = one.processes("gmx")
        process.kill()
    for one in (plain, step):
        one.check_done(undisturbed.directory)
        assert one.outcomes() == ["killed", "finished"]
        assert one.resumed_at(2) > 0
        cluster.wait_history(one.id, "COMPLETED")


def test_two_mpi_ranks_are_asked_to_stop_and_later_one_is_killed(
    cluster: SlurmCluster, simulation: Make, tmp_path: Path
) -> None:
    need("gmx_mpi", "GROMACS")
    need("mpirun", "OpenMPI")
    ranks = simulation("ranks", *TWO_RANKS)
    ranks.submit("--ntasks=2")
    ranks.wait_checkpoints()
    # mpirun has started them in a step of Slurm, and not below itself.
    cluster.cancel(ranks.id, "--batch", "--signal=USR1")
    ranks.wait_text("continuing from step")
    ranks.processes("gmx_mpi")[-1].kill()
    cluster.wait_ended(ranks.id)
    words = ["env", *(f"{name}={value}" for name, value in AS_ROOT.items()), *TWO_RANKS]
    alone = tmp_path / "alone"
    alone.mkdir()
    run_input = ranks.directory / "topol.tpr"
    subprocess.run([*words, "-s", run_input], cwd=alone, check=True, capture_output=True, timeout=300)
    ranks.check_done(alone)
    assert ranks.outcomes() == ["preempted", "killed", "finished"]
    assert ranks.resumed_at(2) == ranks.events(1, "committed")[-1]["step"] > 0
    assert "killing what is left" not in ranks.text()


def test_a_request_to_stop_reaches_it_wherever_it_is_and_after_scancel_it_stays_away(
    cluster: SlurmCluster, simulation: Make, undisturbed: Alone
) -> None:
    """At once: two that are cancelled, and one whose launcher alone is told, by a notice, and has it on another node."""
    plain, step = simulation("plain"), simulation("step", *STEP)
    told = simulation("told", *ON_THE_SECOND_NODE)
    told.submit("--nodes=2", "--ntasks-per-node=1")
    for one in (step, plain):
        one.submit()
    for one in (plain, step, told):
        one.wait_checkpoints()
    cluster.cancel(told.id, "--batch", "--signal=USR1")
    for one in (plain, step):
        cluster.cancel(one.id)
    for one in (plain, step):
        assert cluster.wait_ended(one.id) == "CANCELLED"
        assert one.outcomes() == ["cancelled"], one.text()
        assert "Received the TERM signal, stopping within" in one.text()
        assert "killing what is left" not in one.text()
    told.check_done(undisturbed.directory)
    assert told.outcomes() == ["preempted", "finished"]
    assert told.text().count("Received the TERM signal, stopping within") == 1
    assert told.resumed_at(2) == told.events(1, "committed")[-1]["step"] > 0
    assert not queued(cluster)
