"""LG416: a signal sent by a program's name reaches one node of several."""

from collections.abc import Iterator

from lastgood.audit.batch.ranks import node_count
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import kills_in
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood or (node_count(script) or 1) < 2:
        return
    if not any(launch.wrapper("srun") or launch.wrapper("mpirun") for _, launch in script.work):
        return
    for trap in script.traps:
        if all(name in ("EXIT", "ERR") for name in trap.signals):
            continue
        for kill in kills_in(script, trap.body):
            by_pgrep = any(
                "pgrep" in text or "pidof" in text for w in kill.command.arguments for text in w.substitutions
            )
            if (kill.is_by_name or by_pgrep) and not script.launch(kill.command).wrapper("srun"):
                yield Hit(
                    span=kill.command.span,
                    message=f"{kill.signal} sent by name reaches the processes of this node alone, the first of "
                    f"{node_count(script)}: the tasks on the others do not save",
                    remedy=f"let Slurm send it to all tasks: `scancel --signal={kill.signal} $SLURM_JOB_ID`",
                )
                return


RULE = Rule(
    code="LG416",
    name="signal-by-name",
    severity=Severity.MAY_BE_LOST,
    what="A trap with `pkill`, `killall` or `kill $(pgrep ...)` in a job of several nodes.",
    why="The batch script runs on the first node only. A signal by name reaches the tasks there; those on the other nodes go on, "
    "so a save that all ranks make together hangs or is not complete.",
    bad="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'pkill -USR1 -f train.py; wait "$child"' USR1
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'scancel --signal=USR1 "$SLURM_JOB_ID"; wait "$child"' USR1
wait "$child"
""",
    safe_to_ignore="The first rank tells the others.",
    source="scancel(1), --signal; reports of such traps in recipes for training on several nodes",
    reads=BatchScript,
    check=check,
)
