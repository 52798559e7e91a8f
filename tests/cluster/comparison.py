"""The same computation with `sbatch --requeue` alone and with lastgood, under the same faults: what is seen of each.

Every word about a cell follows from what Slurm's accounting, the output, and the files of that job say.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .slurm import ENDED, SlurmCluster
from .walk import Walk, Way

_NOT_ITS_WORDS = ("step ", "slurmstepd", "srun: ")


class Fault(StrEnum):
    NODE = "node killed"
    PREEMPTED = "preempted without grace"
    GRACE = "preempted with a grace of 3 s"
    LIMIT = "time limit"
    CANCELLED = "scancel"
    ERROR = "error of the program"
    RANK_KILLED = "one of two ranks killed"
    RANK_HUNG = "one of two ranks hung"
    REQUEUED = "requeued by an operator"


_NODES = {Fault.NODE: "n1", Fault.PREEMPTED: "n2", Fault.GRACE: "n3", Fault.LIMIT: "n4"}
"""What strikes a node, or takes longest, has one for itself: there it strikes the job in all three ways at once."""

ON_PURPOSE = (Fault.CANCELLED, Fault.ERROR)
"""What nobody wants to come back."""

_STRIKES_AT = 35
_STILL_S = 45.0
"""A job that runs and does no step for so long is given its time limit: nothing else would end it."""

_PROGRAM_FAULTS = {Fault.ERROR: ("raise", 0), Fault.RANK_KILLED: ("kill", 1), Fault.RANK_HUNG: ("hang", 1)}

# At a limit of one minute the work takes longer than the 90 s after which Slurm has acted on it.
_STEPS = {Fault.LIMIT: 950}
_SBATCH = {Fault.LIMIT: ["--time=1"], Fault.GRACE: ["--partition=grace"]}
_RUN = {Fault.LIMIT: ["--grace", "10s"], Fault.RANK_HUNG: ["--hang-timeout", "15s"]}


@dataclass(frozen=True)
class Observed:
    """One way under one fault."""

    fault: Fault
    way: Way
    states: tuple[str, ...]
    """Slurm's, of each time that the job ran; one of several in a row that are the same. A failure with its exit code."""
    before: int
    """The last step before the fault."""
    reached: int
    again: int
    """Steps done more than once."""
    kept: int
    """The step that the next start goes on after."""
    every: int
    is_done: bool
    is_right: bool
    """The answer is bit for bit that of an uninterrupted run."""
    stood_still: bool
    says_so: bool
    """Its output has more than steps, and what Slurm puts there."""

    @property
    def steps_again(self) -> str:
        """Done again, or to be done again by whoever starts it again by hand."""
        count = self.again if self.is_done else self.reached - self.kept
        if count == 0:
            return "none"
        # One save may still have been under way.
        return "since the last save" if count <= 2 * self.every and count < self.before else "all"

    @property
    def in_words(self) -> str:
        if self.fault in ON_PURPOSE:
            return self._ended_on_purpose()
        if not self.is_done:
            if self.stood_still:
                return "hangs until the time limit"
            return "lost, and called COMPLETED" if self.states[-1] == "COMPLETED" else "lost, with work left"
        if not self.is_right:
            return "finishes with another result"
        if self.steps_again == "all":
            return "restarts from zero" + ("" if self.says_so else ", silently")
        return "comes back, nothing lost" if self.steps_again == "none" else "comes back from its last save"

    def _ended_on_purpose(self) -> str:
        if self.is_done or len(self.states) > 1:
            return "comes back, and nobody wants it"
        return "stays away" if self.fault is Fault.CANCELLED else "fails once"


@dataclass
class _Struck:
    """A job that a fault has struck, with what is only seen while it runs."""

    fault: Fault
    walk: Walk
    job_id: int
    before: int = 0
    stood_still: bool = False


def run_all(cluster: SlurmCluster, directory: Path) -> list[Observed]:
    """Every fault, in every way. Takes the four nodes of the cluster."""
    with ThreadPoolExecutor(len(Fault)) as pool:

        def start(faults: Sequence[Fault]) -> list[Future[list[_Struck]]]:
            return [pool.submit(run, cluster, directory / fault.name.lower(), fault) for fault in faults]

        on_nodes = start([Fault.NODE, Fault.PREEMPTED, Fault.GRACE])
        slow = start([Fault.LIMIT])
        wait(on_nodes)
        rest = start([fault for fault in Fault if fault not in _NODES])
        struck = [one for future in [*on_nodes, *slow, *rest] for one in future.result()]
    # Only now: whatever was to come back has had its time.
    order = list(Fault)
    return sorted(
        (observed(cluster, one) for one in struck), key=lambda o: (order.index(o.fault), list(Way).index(o.way))
    )


def run(cluster: SlurmCluster, directory: Path, fault: Fault) -> list[_Struck]:
    """One fault, in all ways; returns when Slurm is done with all three jobs."""
    gate = directory / "gate" if fault in (Fault.NODE, Fault.PREEMPTED, Fault.GRACE) else None
    how, rank = _PROGRAM_FAULTS.get(fault, ("", 0))
    struck = []
    for way in Way:
        walk = Walk(
            cluster,
            directory / way,
            way,
            steps=_STEPS.get(fault, 120),
            ranks=2 if fault in (Fault.RANK_KILLED, Fault.RANK_HUNG) else 1,
            gate=str(gate or ""),
            fault={"how": how, "rank": rank, "step": _STRIKES_AT, "is_always": fault is Fault.ERROR} if how else None,
        )
        where = [f"--nodelist={_NODES[fault]}"] if fault in _NODES else []
        job_id = walk.submit("--requeue", *where, *_SBATCH.get(fault, []), script=walk.batch(*_RUN.get(fault, [])))
        struck.append(_Struck(fault, walk, job_id, before=_STRIKES_AT if how else 0))
    if gate is not None:
        for one in struck:
            one.walk.wait_until(Path(f"{gate}.{one.walk.way}").exists, "the program has begun")
        gate.touch()
    if fault is not Fault.LIMIT and not how:
        _strike(cluster, fault, struck)
    _settle(cluster, struck)
    return struck


def _strike(cluster: SlurmCluster, fault: Fault, struck: list[_Struck]) -> None:
    if fault in _NODES:
        for one in struck:
            one.walk.wait_step(_STRIKES_AT)
        for one in struck:
            one.before = one.walk.reached()
        if fault is Fault.NODE:
            cluster.kill_node(_NODES[fault])
            cluster.notice(_NODES[fault])
            for one in struck:
                cluster.wait_for(one.job_id, "PENDING")
            cluster.restore_node(_NODES[fault])
        else:
            cluster.preempt([_NODES[fault]])
        return
    for one in struck:
        one.walk.wait_step(_STRIKES_AT)
        one.before = one.walk.reached()
        if fault is Fault.CANCELLED:
            cluster.cancel(one.job_id)
        else:
            cluster.run("scontrol", "requeue", str(one.job_id))


def _settle(cluster: SlurmCluster, struck: list[_Struck], limit_s: float = 240) -> None:
    """Until Slurm is done with the jobs, and stays so. One that stands still is given its time limit."""
    end = time.monotonic() + limit_s
    ended = dict.fromkeys((one.job_id for one in struck), 0)
    still: dict[int, tuple[int, float]] = {}
    while any(looks < 3 for looks in ended.values()):
        assert time.monotonic() < end, [(one.fault, one.walk.way, one.walk.text()) for one in struck]
        for one in struck:
            state = cluster.state(one.job_id)
            ended[one.job_id] = ended[one.job_id] + 1 if state in ENDED else 0
            count = one.walk.text().count("step ")
            if state != "RUNNING" or still.get(one.job_id, (-1, 0.0))[0] != count:
                still[one.job_id] = (count, time.monotonic())
            elif time.monotonic() - still[one.job_id][1] > _STILL_S and not one.stood_still:
                one.stood_still = True
                cluster.limit_in(one.job_id, 0)
        time.sleep(1)


def observed(cluster: SlurmCluster, one: _Struck) -> Observed:
    walk = one.walk
    # The accounting learns of ends a little later than slurmctld.
    last = cluster.state(one.job_id)
    cluster.wait_until(lambda: _states(cluster.history(one.job_id))[-1].startswith(last), f"{one.job_id} has ended")
    return Observed(
        fault=one.fault,
        way=walk.way,
        states=tuple(_states(cluster.history(one.job_id))),
        before=one.before or walk.reached(),
        reached=walk.reached(),
        again=walk.done_twice(),
        kept=walk.kept(),
        every=walk.settings["every"],
        is_done=walk.is_done,
        is_right=walk.is_done and walk.answers() == walk.right_answers(),
        stood_still=one.stood_still,
        says_so=any(not line.startswith(_NOT_ITS_WORDS) for line in walk.text().splitlines() if line),
    )


def _states(rows: list[dict[str, str]]) -> list[str]:
    found: list[str] = []
    for row in rows:
        state = row["State"].split(" ")[0]
        text = f"{state} {row['ExitCode']}" if state == "FAILED" else state
        if found[-1:] != [text]:
            found.append(text)
    return found


# The page

_WAYS = {Way.PLAIN: "`--requeue`", Way.OWN: "`--requeue`, own checkpoints", Way.LASTGOOD: "`lastgood run`"}


def table(cells: Sequence[Observed]) -> str:
    """In Markdown, three rows for each fault."""
    lines = [
        "| fault | way | finishes by itself | steps again | Slurm's states | in words |",
        "|---|---|---|---|---|---|",
    ]
    fault = None
    for cell in cells:
        name = f"**{cell.fault}**" if cell.fault is not fault else ""
        fault = cell.fault
        done = "yes" if cell.is_done else "no"
        states = ", ".join(cell.states)
        lines.append(f"| {name} | {_WAYS[cell.way]} | {done} | {cell.steps_again} | {states} | {cell.in_words} |")
    return "\n".join(lines) + "\n"
