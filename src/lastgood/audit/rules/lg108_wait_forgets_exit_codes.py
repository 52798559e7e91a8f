"""LG108: programs in the background whose exit codes `wait` does not give."""

from collections.abc import Iterator

from lastgood.audit.batch.readers import consequence, shown
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    costs = consequence(script, context.policy)
    if costs is None:
        return
    children = [command for command, _ in script.work if command.around.is_background]
    waits = [command for command in script.commands if command.name == "wait" and command.around.within != "trap"]
    if not children or not waits or any("CHLD" in trap.signals or "ERR" in trap.signals for trap in script.traps):
        return
    then, severity = costs
    numbered = [wait for wait in waits if any(word.text.startswith("%") for word in wait.arguments)]
    if all(not wait.arguments for wait in waits):
        if not _is_followed_by_work(script, children[-1]):
            yield Hit(
                span=waits[-1].span,
                message=f"`wait` without a pid gives 0 whatever became of {shown(script, children[-1])}: when it fails, "
                f"{then}",
                remedy="keep `pids+=($!)` for each, then `for p in ${pids[@]}; do wait $p || rc=$?; done; exit ${rc:-0}`",
                severity=severity,
            )
    elif numbered and len(numbered) == len(waits):
        yield Hit(
            span=numbered[0].span,
            message="a job number is forgotten once its program has ended: `wait %n` then gives 127, not the program's code",
            remedy="keep `pid=$!` behind the program and write `wait $pid`",
        )
    elif _waits_for_the_last_only(waits, children):
        yield Hit(
            span=waits[0].span,
            message=f"`wait $!` waits for the last of {len(children)} programs: when that ends, the job ends, and Slurm kills "
            "the others",
            remedy="write `wait`, or wait for each pid",
            severity=Severity.MAY_BE_LOST,
        )


def _is_followed_by_work(script: BatchScript, child: Command) -> bool:
    """A program in the foreground behind it: then what runs in the background only helps."""
    return any(command.begin > child.end and not command.around.is_background for command, _ in script.work)


def _waits_for_the_last_only(waits: list[Command], children: list[Command]) -> bool:
    (first, *others) = waits
    plain = [child for child in children if not child.around.loops and not child.around.is_conditional]
    return (
        not others
        and [word.text for word in first.arguments] == ["${!}"]
        and not first.around.loops
        and len([child for child in plain if child.end <= first.begin]) > 1
    )


RULE = Rule(
    code="LG108",
    name="wait-forgets-exit-codes",
    severity=Severity.NOTE,
    what="Programs that are started with `&`, and a `wait` that does not give their exit codes.",
    why="`wait` without a pid always gives 0: a job whose programs all crashed is COMPLETED, is not requeued by its code, "
    "and jobs that wait with afterok start. `set -e` does not help. `wait $!` waits for one program only.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
pid=$!
trap 'kill -USR1 "$pid"; wait "$pid"; scontrol requeue "$SLURM_JOB_ID"' USR1
wait
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
pid=$!
trap 'kill -USR1 "$pid"; wait "$pid"; scontrol requeue "$SLURM_JOB_ID"' USR1
wait "$pid"
""",
    safe_to_ignore="Each program leaves a mark of success that is looked at, or nobody reads the job's state.",
    source="bash(1), wait; seen with bash 5.2: `false & wait` ends with 0, also under `set -e`; `(exit 3) & sleep 1; wait %1` "
    "with 127. Seen with Slurm 22.05: COMPLETED 0:0 for a crash",
    reads=BatchScript,
    check=check,
)
