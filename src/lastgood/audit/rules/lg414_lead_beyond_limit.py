"""LG414: the early signal is asked for before the job begins."""

from collections.abc import Iterator

from lastgood.audit.batch.limits import in_words, time_limit_s
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import early_signal, shown
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    limit_s = time_limit_s(script)
    if asked is None or limit_s is None or script.uses_lastgood:
        return
    if asked.lead_s >= limit_s:
        yield Hit(
            span=asked.span,
            message=f"{shown(asked)} asks for a signal {in_words(asked.lead_s)} before the end of a job of "
            f"{in_words(limit_s)}: it comes at its start",
            remedy="the lead is in seconds: ask for less than the time limit, such as `@300`",
        )


RULE = Rule(
    code="LG414",
    name="lead-beyond-limit",
    severity=Severity.WASTEFUL,
    what="A lead in `--signal=NAME@SECONDS` that is not shorter than the job's time limit.",
    why="The signal is due when the rest of the time is as long as the lead: here at once. The job saves and stops, or dies of "
    "the signal, before it has done anything, and where it is requeued it does so again and again.",
    bad="""\
#!/bin/bash
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@3600
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@600
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="sbatch is called with a longer `--time`.",
    source="sbatch(1), --signal: the value is in seconds, from 0 to 65535",
    reads=BatchScript,
    check=check,
)
