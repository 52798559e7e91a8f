"""LG409: what the cluster leaves between TERM and KILL is less than a save takes."""

from collections.abc import Iterator

from lastgood.audit.batch.handlers import handled
from lastgood.audit.batch.limits import in_words, is_short, partitions
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import early_signal, own_traps
from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.schedulers.slurm_text import parse_seconds


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    policy, write_s = context.policy, context.write_s
    if policy is None or write_s is None or script.uses_lastgood or is_short(script) or not script.header.directives:
        return
    kill_wait_s = policy.kill_wait_s
    if kill_wait_s is None:
        return
    asked = early_signal(script)
    waits_for_term = bool(own_traps(script, "TERM")) or any(
        "TERM" in handled(context.find_program(script.path, launch.python_script))
        for _, launch in script.work
        if launch.python_script
    )
    first = script.header.directives[0].span
    if asked is None and waits_for_term and kill_wait_s < write_s:
        yield Hit(
            span=first,
            message=f"what saves at TERM has KillWait ({kill_wait_s:g} s here) at the time limit until it is killed, and a save "
            f"takes {in_words(write_s)}",
            remedy=f"ask for an earlier signal: `#SBATCH --signal=TERM@{int(write_s) + 120}`",
        )
        return
    grace_s = _grace_s(script, policy)
    if (asked is not None or waits_for_term) and grace_s is not None and grace_s + kill_wait_s < write_s:
        yield Hit(
            span=asked.span if asked is not None else first,
            message=f"at a preemption the job has {grace_s + kill_wait_s:g} s (GraceTime and KillWait), and a save takes "
            f"{in_words(write_s)}: it cannot be finished then",
            remedy="count on regular saves for preemptions, and save more often",
        )


def _grace_s(script: BatchScript, policy: Policy) -> float | None:
    """GraceTime of the job's partition, if it can be preempted there; None if that is not known."""
    found = partitions(script, policy)
    if len(found) != 1:
        return None
    mode = policy.partition(found[0], "PreemptMode") or policy.get("PreemptMode")
    if mode is None or mode.upper() in ("", "OFF", "GANG", "SUSPEND", "GANG,SUSPEND", "SUSPEND,GANG"):
        return None
    return parse_seconds(policy.partition(found[0], "GraceTime") or "0")


RULE = Rule(
    code="LG409",
    name="grace-shorter-than-write",
    severity=Severity.MAY_BE_LOST,
    what="A job that is to save at a signal, on a cluster whose KillWait or GraceTime is shorter than the stated save.",
    why="Between TERM and KILL lie KillWait seconds at the time limit, and GraceTime and KillWait at a preemption. A save that "
    "takes longer is killed in its middle, and what it should have kept is lost.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'scancel --signal=USR1 "$SLURM_JOB_ID"; wait "$child"' TERM
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@420
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'scancel --signal=USR1 "$SLURM_JOB_ID"; wait "$child"' TERM
wait "$child"
""",
    safe_to_ignore="The program saves at the signal only what is quick, or its regular saves are frequent.",
    source="slurm.conf(5), KillWait, GraceTime; seen with Slurm 22.05: KillWait is given at the time limit, at scancel and at a "
    "preemption without GraceTime",
    reads=BatchScript,
    check=check,
    policy="KillWait=30\n",
    write_s=300.0,
)
