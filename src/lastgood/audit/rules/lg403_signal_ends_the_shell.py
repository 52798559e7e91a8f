"""LG403: the batch shell is to get a signal that it has no trap for."""

from collections.abc import Iterator

from lastgood.audit.batch.limits import in_words
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import (
    DEADLY,
    early_signal,
    is_replaced,
    is_shell_script,
    names_signal,
    own_traps,
    reads_other_scripts,
    shown,
)
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or not asked.is_for_shell or asked.name not in DEADLY or script.uses_lastgood:
        return
    if not is_shell_script(script) or reads_other_scripts(script) or is_replaced(script):
        return
    if own_traps(script, asked.name, "EXIT") or names_signal(script, asked.name) or not script.launches:
        return
    yield Hit(
        span=asked.span,
        message=f"{shown(asked)} goes to the batch shell, which has no trap for {asked.name} and ends at once: the job fails "
        f"about {in_words(max(asked.lead_s, 60))} before its limit, nothing is told to save, and it is not requeued",
        remedy=f"run the program in the background (`srun ... & child=$!`) with `trap 'kill -{asked.name} $child' "
        f"{asked.name}` and `wait $child` twice, or leave out `B:` if the program that srun runs handles {asked.name}",
    )


RULE = Rule(
    code="LG403",
    name="signal-ends-the-shell",
    severity=Severity.LOST,
    what="`--signal=B:NAME` in a script that has no trap for NAME.",
    why="`B:` sends the signal to the batch shell alone. A shell without a trap dies of it within milliseconds, also while "
    "it waits for a program; Slurm then ends the program, and the job counts as FAILED, not as one that reached its "
    "limit. That is worse than no signal.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'kill -USR1 "$child"' USR1
wait "$child"
wait "$child"
""",
    safe_to_ignore="A file that the script sources sets the trap.",
    source="sbatch(1), --signal; seen with Slurm 22.05 and bash 5.2: bash ended 2 ms after USR1, the task of its srun "
    "heard nothing and was ended, the job was FAILED 0:10 and not requeued",
    reads=BatchScript,
    check=check,
)
