"""LAMMPS under the real Slurm: whatever ends it, it comes back and gives the bytes of an undisturbed run."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from apps.conftest import need

from .queue import queued
from .simulation import Simulation, cpu_of_children
from .slurm import SlurmCluster

INPUT = Path(__file__).parent.parent / "apps" / "lammps" / "in.plain"
STEPS = 30000
LMP = ("lmp", "-in", "in.plain")
RANKS = ("mpirun", "-np", "1", *LMP)
"""Debian's OpenMPI cannot be started by srun. One rank, as others give other last digits."""


class Liquid(Simulation):
    """One LAMMPS simulation."""

    options = ("--app", "lammps")
    alone = LMP
    input_name = "in.plain"
    saved = "restart.b"
    results = ("final.data", "dump.lj")
    programs = ("lmp",)


Make = Callable[..., Liquid]


class Alone(NamedTuple):
    """A simulation when nothing happens to it and nobody of us is there."""

    directory: Path
    cpu_s: float
    """Of the machine's time, whatever else it did meanwhile."""


@pytest.fixture(scope="session")
def undisturbed_liquid(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    need("lmp", "LAMMPS")
    place = tmp_path_factory.mktemp("liquid")
    text = INPUT.read_text().replace("8000", str(STEPS)).replace("custom 100", "custom 1000")
    (place / "in.plain").write_text(text)
    began = cpu_of_children()
    subprocess.run(LMP, cwd=place, check=True, capture_output=True, timeout=300)
    return Alone(place, cpu_of_children() - began)


@pytest.fixture
def liquid(cluster: SlurmCluster, shared: Path, undisturbed_liquid: Alone) -> Make:
    def make(name: str, *command: str) -> Liquid:
        return Liquid(cluster, shared / name, undisturbed_liquid.directory / "in.plain", *command)

    return make


def test_preempted_it_goes_on_from_what_it_has_saved(
    cluster: SlurmCluster, liquid: Make, undisturbed_liquid: Alone
) -> None:
    plain, ranks = liquid("plain"), liquid("ranks", *RANKS)
    for node, one in zip(cluster.nodes, (plain, ranks), strict=False):
        one.submit("--partition=main", f"--nodelist={node}", "--time=10")
    for one in (plain, ranks):
        one.wait_checkpoints()
    cluster.preempt(cluster.nodes[:2])
    for one in (plain, ranks):
        one.check_done(undisturbed_liquid.directory)
        assert one.outcomes() == ["preempted", "finished"], one.text()
        assert one.resumed_at(2) == one.events(1, "committed")[-1]["step"] > 0
    # Not surely behind mpirun: the daemon by which it starts ranks is a step, to which Slurm sends its signal, too.
    assert "stopped and saved at step" in plain.text()


def test_a_time_limit_makes_segments_and_a_requeue(
    cluster: SlurmCluster, liquid: Make, undisturbed_liquid: Alone
) -> None:
    """The limit is the shortest that there is, so the grace time is long: of a minute, a third of the simulation fits in."""
    requeued, chained = liquid("requeued"), liquid("chained", *RANKS)
    grace = f"{59 - undisturbed_liquid.cpu_s / 3:.1f}s"
    requeued.submit("--time=1", "--grace", grace, "--nodelist=n1")
    chained.submit("--time=1", "--grace", grace, "--nodelist=n2", "--segments=30", "--no-requeue")
    requeued.check_done(undisturbed_liquid.directory)
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")
    chained.check_results(undisturbed_liquid.directory)
    for one in (requeued, chained):
        outcomes = one.outcomes()
        assert len(outcomes) > 1 and outcomes == ["time limit"] * (len(outcomes) - 1) + ["finished"], one.text()
        assert "stopped and saved at step" in one.text()


def test_a_node_dies_and_it_goes_on_elsewhere(cluster: SlurmCluster, liquid: Make, undisturbed_liquid: Alone) -> None:
    plain = liquid("plain")
    plain.submit()
    plain.wait_checkpoints()
    name = cluster.nodes_of(plain.id)[0]
    cluster.kill_node(name)
    cluster.notice(name)
    plain.check_done(undisturbed_liquid.directory)
    assert plain.outcomes() == ["", "finished"] and plain.resumed_at(2) > 0
