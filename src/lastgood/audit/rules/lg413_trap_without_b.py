"""LG413: a trap in the batch script for a signal that only steps get."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import early_signal, own_traps, shown
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or asked.is_for_shell or script.uses_lastgood:
        return
    for trap in own_traps(script, asked.name):
        if asked.name not in trap.signals or trap.is_ignore:
            continue
        at_limit = "the trap first runs when the time limit has come" if asked.name == "TERM" else "the trap never runs"
        yield Hit(
            span=trap.span,
            message=f"{shown(asked)} without `B:` goes to steps and not to the batch shell: {at_limit}",
            remedy=f"write `--signal=B:{asked.text.removeprefix('R:')}`, and pass it on to the program in the trap",
        )
        return


RULE = Rule(
    code="LG413",
    name="trap-without-b",
    severity=Severity.MAY_BE_LOST,
    what="A trap in the batch script for the signal of `--signal=NAME` without `B:`.",
    why="Without `B:` the early signal goes to what srun started. The batch shell gets nothing before the time limit, so what "
    "its trap should save, copy or requeue does not happen.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
trap 'touch STOP' USR1
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
wait "$child"
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'touch STOP' USR1
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
wait "$child"
wait "$child"
""",
    safe_to_ignore="The program in the step sends the signal on to the batch shell.",
    source="sbatch(1), --signal: without `B:` all job steps are signalled, but not the batch shell itself",
    reads=BatchScript,
    check=check,
)
