"""LG402: the signal comes too late to save."""

from collections.abc import Iterator

from lastgood.audit.batch.limits import in_words, is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import SLACK_S, early_signal, shown
from lastgood.audit.rule import Context, Hit, Rule, Severity

_VERY_SHORT_S = 60.0


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or script.uses_lastgood:
        return
    write_s, lead = context.write_s, f"{asked.lead_s:g} s"
    if write_s is None:
        if asked.lead_s < _VERY_SHORT_S and not asked.is_for_shell and not is_short(script):
            yield Hit(
                span=asked.span,
                message=f"{shown(asked)} leaves at least {lead}: the step that is under way and the save have to fit in, "
                "and Slurm looks at the clock only each 30 s",
                remedy="ask for it earlier: the longest step, the save, and a minute more",
                severity=Severity.NOTE,
            )
    elif asked.lead_s < write_s + SLACK_S:
        is_lost = asked.lead_s <= write_s
        default = "" if asked.is_lead_given else " (60 s, since it says nothing)"
        yield Hit(
            span=asked.span,
            message=f"a save takes {in_words(write_s)}, and {shown(asked)}{default} comes {lead} before the end: "
            + ("it cannot be finished" if is_lost else "with the step that is under way it may not be finished"),
            remedy=f"ask for at least {write_s + SLACK_S:.0f} s plus the longest step, such as "
            f"`--signal={asked.text.partition('@')[0]}@{_rounded(write_s)}`",
            severity=Severity.LOST if is_lost else None,
        )


def _rounded(write_s: float) -> int:
    """Twice the save and a minute, in whole minutes."""
    return int(-(-(2 * write_s + SLACK_S) // 60) * 60)


RULE = Rule(
    code="LG402",
    name="lead-too-short",
    severity=Severity.MAY_BE_LOST,
    what="A lead in `--signal=NAME@SECONDS` that is shorter than a save takes, as far as that is stated.",
    why="A program acts on the signal when its step is over, and then needs the time of a save. What is not finished at the "
    "time limit is killed and useless. Slurm looks at the clock each 30 s and rounds limits to minutes, so a lead is "
    "good to a minute: it may come up to 60 s early, and was seen some seconds late.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@60
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@660
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The program does not save at the signal, but only stops after a save that it makes anyway.",
    source="sbatch(1), --signal; seen with Slurm 22.05: asked for 40 s before the end it came 30 to 33 s before",
    reads=BatchScript,
    check=check,
    write_s=300.0,
)
