"""Which of the mechanisms to use, and which not, each with its reason. Pure."""

from enum import StrEnum

import msgspec

from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN
from lastgood.core.segments import MOST_SEGMENTS
from lastgood.plan.quantities import rounded
from lastgood.plan.situation import Situation
from lastgood.plan.solve import Solved
from lastgood.plan.ways import ASYNCHRONOUS_LOCAL, REPLICATED, SYNCHRONOUS_SHARED, Way, way_efficiency, ways_of
from lastgood.plan.window import LEAST_GRACE_S, Segments, Window

CHAIN = "chain or array"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster's rules; None for what is not."""

    requeue_codes: frozenset[int] | None = None
    """RequeueExit."""
    kill_wait_s: float | None = None
    grace_s: float | None = None
    """GraceTime of the partition."""
    preempts_by: str | None = None
    exempt_s: float | None = None
    kills_on_bad_exit: bool | None = None
    may_requeue: bool = True
    """False where it was said that jobs are not requeued (--no-requeue)."""

    @property
    def window_s(self) -> float | None:
        """What a preemption leaves after its signal."""
        return self.grace_s or self.kill_wait_s

    @property
    def requeues(self) -> bool:
        return self.may_requeue and "CANCEL" not in (self.preempts_by or "")


class Verdict(StrEnum):
    USE = "use"
    ASK = "ask for"
    """The site has to set it."""
    LEAVE = "do not"


class Mechanism(msgspec.Struct, frozen=True):
    name: str
    verdict: Verdict
    setting: str
    """What to write; empty if there is nothing to write."""
    reason: str


def mechanisms_of(
    s: Situation, solved: Solved, window: Window, segments: Segments | None, cluster: Cluster
) -> list[Mechanism]:
    """All that were weighed, those to use first."""
    found = [
        _requeue(cluster),
        _requeue_exit(cluster),
        _signal(s, window),
        _chain(s, segments, cluster),
        _grace_time(s, window, cluster),
        _exempt(s, solved, cluster),
        _kill_on_bad_exit(s, cluster),
        _staging(s, solved),
        _replication(s),
        _storage(s, solved),
    ]
    return sorted((one for one in found if one is not None), key=lambda one: list(Verdict).index(one.verdict))


def _requeue(cluster: Cluster) -> Mechanism:
    if not cluster.may_requeue:
        return Mechanism("requeue", Verdict.LEAVE, "--no-requeue", "you say that this cluster starts no job again")
    if not cluster.requeues:
        reason = "PreemptMode=CANCEL ends a preempted job for good, whatever the job asks for"
        return Mechanism("requeue", Verdict.LEAVE, "", reason)
    reason = "after a lost node, a preemption, the time limit it starts again"
    return Mechanism("requeue", Verdict.USE, "--requeue --open-mode=append", reason)


def _requeue_exit(cluster: Cluster) -> Mechanism:
    codes = cluster.requeue_codes
    if not cluster.requeues:
        return Mechanism("RequeueExit", Verdict.LEAVE, "", "nothing is requeued here")
    if codes is None:
        reason = f"{EXIT_SAVED_RUN_AGAIN} if it lists that; else lastgood asks scontrol (--policy FILE tells)"
        return Mechanism("RequeueExit", Verdict.USE, "", reason)
    if EXIT_SAVED_RUN_AGAIN in codes:
        reason = f"lists {EXIT_SAVED_RUN_AGAIN}, lastgood's code: works while slurmctld is away, too"
        return Mechanism("RequeueExit", Verdict.USE, "", reason)
    ask = f"slurm.conf: RequeueExit={EXIT_SAVED_RUN_AGAIN}"
    if codes:
        listed = ",".join(map(str, sorted(codes)[:5]))
        reason = f"lists {listed}: lastgood ends with one of these, which other failures may share"
        return Mechanism("RequeueExit", Verdict.USE, "", reason)
    return Mechanism("RequeueExit", Verdict.ASK, ask, "lists nothing: lastgood asks scontrol, which needs slurmctld")


def _signal(s: Situation, window: Window) -> Mechanism:
    if s.limit_s is None:
        return Mechanism("signal lead", Verdict.LEAVE, "", "no time limit was given (--time)")
    formula = "2 writes, a step, 5 s, Slurm's 60 s"
    if window.grace_s == LEAST_GRACE_S:
        formula = "30 s to end in, Slurm's 60 s"
    return Mechanism("signal lead", Verdict.USE, f"--signal=B:USR1@{window.lead_s:.0f}", formula)


def _chain(s: Situation, segments: Segments | None, cluster: Cluster) -> Mechanism:
    if cluster.requeues:
        return Mechanism(CHAIN, Verdict.LEAVE, "", "requeue goes on by itself, under one number")
    if s.limit_s is None:
        return Mechanism(CHAIN, Verdict.LEAVE, "", "without a time limit there is nothing to divide (--time)")
    if segments is None:
        return Mechanism(
            CHAIN, Verdict.LEAVE, "", "lastgood keeps a segment of its own waiting (--work 30d counts them)"
        )
    if segments.count > MOST_SEGMENTS:
        reason = f"{segments.count:,} segments are too many to queue; lastgood keeps one of its own waiting"
        return Mechanism(CHAIN, Verdict.LEAVE, "", reason)
    verdict = Verdict.USE if segments.count > 1 else Verdict.LEAVE
    reason = "a chain by afterany, never afterok: what is not needed is cancelled"
    return Mechanism(CHAIN, verdict, f"--segments {segments.count}", reason)


def _grace_time(s: Situation, window: Window, cluster: Cluster) -> Mechanism:
    left_s = cluster.window_s
    need = rounded(window.grace_s)
    ask = f"={window.grace_s:.0f}, partition"
    name = "GraceTime" if cluster.grace_s else "KillWait"
    if left_s is None:
        return Mechanism("GraceTime", Verdict.ASK, ask, f"a preemption must leave {need}")
    if left_s >= window.grace_s:
        return Mechanism("GraceTime", Verdict.USE, "", f"{name} leaves {rounded(left_s)}, and a stop needs {need}")
    reason = f"{name} leaves {rounded(left_s)}, a stop needs {need}: the last periodic save is what stays"
    return Mechanism("GraceTime", Verdict.ASK, ask, reason)


def _exempt(s: Situation, solved: Solved, cluster: Cluster) -> Mechanism:
    least_s = s.restart_s + solved.interval_s + solved.way.write_s
    need = rounded(least_s)
    if cluster.preempts_by in ("OFF", ""):
        return Mechanism("exempt window", Verdict.LEAVE, "", "nobody is preempted here (PreemptMode=OFF)")
    if cluster.preempts_by is None and cluster.exempt_s is None and not s.failures.others_per_day:
        return Mechanism(
            "exempt window", Verdict.LEAVE, "", "nothing says that jobs are preempted here (--policy, --others)"
        )
    if not cluster.exempt_s:
        reason = f"preempted in its first {need}, an attempt keeps nothing (restart + interval + write)"
        return Mechanism("exempt window", Verdict.ASK, f"PreemptExemptTime={_clock(least_s)}", reason)
    if cluster.exempt_s < least_s:
        reason = f"{rounded(cluster.exempt_s)} ends before the first save is done, after {need}"
        return Mechanism("exempt window", Verdict.ASK, f"PreemptExemptTime={_clock(least_s)}", reason)
    reason = f"{rounded(cluster.exempt_s)} are safe from preemption, the first save is done after {need}"
    return Mechanism("exempt window", Verdict.USE, "", reason)


def _clock(seconds: float) -> str:
    """As slurm.conf has it, in whole minutes."""
    minutes = -(-int(seconds) // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def _kill_on_bad_exit(s: Situation, cluster: Cluster) -> Mechanism:
    if s.nodes == 1 and (s.gpus or 1) == 1:
        return Mechanism("kill-on-bad-exit", Verdict.LEAVE, "", "one rank has no others that could wait for it")
    if cluster.kills_on_bad_exit:
        return Mechanism("kill-on-bad-exit", Verdict.USE, "", "KillOnBadExit=1 is this cluster's rule")
    reason = "one dead rank ends all"
    return Mechanism("kill-on-bad-exit", Verdict.USE, "=1, lastgood sets it", reason)


def _staging(s: Situation, solved: Solved) -> Mechanism:
    if s.local_write_s is None:
        return Mechanism("staging", Verdict.LEAVE, "", "the node's disk was not timed (--local-write, --measure-local)")
    if s.nodes > 1:
        return Mechanism("staging", Verdict.LEAVE, "", "lastgood stages jobs of one node only")
    if solved.way.name == ASYNCHRONOUS_LOCAL:
        return Mechanism(
            "staging", Verdict.USE, 'Run(stage="DIR")', "a save counts sooner, and shared storage gets less"
        )
    reason = "it would gain less than half a percent of the time"
    if not s.same_nodes:
        reason = "nothing says that the job starts again on the same node (--same-nodes)"
    return Mechanism("staging", Verdict.LEAVE, "", reason)


def _replication(s: Situation) -> Mechanism | None:
    if s.nodes == 1:
        # There is no other node.
        return None
    reason = "lastgood's snapshots stay on their node"
    if s.replica_write_s is None:
        reason += "; another's memory was not timed (--replica-write)"
    return Mechanism(REPLICATED, Verdict.LEAVE, "", reason)


def _storage(s: Situation, solved: Solved) -> Mechanism:
    others = [f"{way.name} {_lost(way, s)}" for way in ways_of(s) if way.name != solved.way.name]
    compared = f" (would lose: {', '.join(others)})" if others else ""
    reason = f"{100 * (1 - solved.efficiency):.1f} % lost{compared}"
    if s.save.stall_s == s.save.write_s and solved.way.name == SYNCHRONOUS_SHARED:
        reason = f"{100 * (1 - solved.efficiency):.1f} % lost, as the loop waits; lastgood's own saves do not (--stall)"
        return Mechanism(f"save {solved.way.name}", Verdict.USE, "", reason)
    return Mechanism(f"save {solved.way.name}", Verdict.USE, solved.way.how, reason)


def _lost(way: Way, s: Situation) -> str:
    from lastgood.plan.solve import solve

    best = solve(msgspec.structs.replace(s, most_lost_s=None, every_s=None), way=way)
    return f"{100 * (1 - way_efficiency(way, best.interval_s, s)):.1f} %"
