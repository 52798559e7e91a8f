"""LG404: a trap that cannot run, because bash waits for the program first."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import (
    early_signal,
    foreground_work,
    is_replaced,
    is_shell_script,
    name_of,
    own_traps,
    shown,
)
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or not asked.is_for_shell or script.uses_lastgood or not is_shell_script(script):
        return
    traps = [trap for trap in own_traps(script, asked.name) if asked.name in trap.signals and not trap.is_ignore]
    if not traps or is_replaced(script):
        return
    work = [(c, launch) for c, launch in foreground_work(script) if c.end > traps[0].command.begin]
    if not work or any(c.around.loops for c, _ in work):
        # Between two rounds of a loop the trap runs, which may be what is meant.
        return
    command, launch = work[-1]
    ends = (
        "" if any("TERM" in trap.signals for trap in own_traps(script, "TERM")) else ", which ends the shell before it"
    )
    yield Hit(
        span=command.span,
        message=f"bash runs the trap for {asked.name} only when {name_of(launch)} has ended: {shown(asked)} does nothing until the "
        f"time limit{ends}",
        remedy="start it in the background and wait: put ` & child=$!` behind it, and `wait $child` twice on the next lines",
        severity=None if ends else Severity.MAY_BE_LOST,
    )


RULE = Rule(
    code="LG404",
    name="trap-waits-for-program",
    severity=Severity.LOST,
    what="A trap for the signal of `--signal=B:NAME` in a script that runs its program in the foreground.",
    why="bash runs a trap between two commands, never during one: it waits for the program in its foreground. The signal "
    "comes in time and nothing happens. At the time limit TERM ends the shell before the trap has run, so neither the "
    "save nor the requeue in it takes place. Only `wait`, which a signal interrupts, lets a trap run at once.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'echo "time is nearly up"; touch STOP' USR1
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'echo "time is nearly up"; touch STOP' USR1
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
wait "$child"
wait "$child"
""",
    safe_to_ignore="The program ends by itself between the signal and the time limit.",
    source="bash(1), SIGNALS; seen with Slurm 22.05 and bash 5.2: after USR1 nothing happened until the time limit, "
    "whose TERM ended the shell without the trap; with a trap for TERM as well both ran when the program had "
    "ended",
    reads=BatchScript,
    check=check,
)
