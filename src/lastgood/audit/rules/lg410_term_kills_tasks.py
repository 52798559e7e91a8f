"""LG410: a trap that sends srun TERM, which srun answers by killing its tasks."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.signals import kills_in
from lastgood.audit.rule import Context, Hit, Rule, Severity

_KILLING = ("TERM", "HUP", "QUIT")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    yield from _traps(script)
    yield from _timeouts(script)


def _timeouts(script: BatchScript) -> Iterator[Hit]:
    for command, launch in script.work:
        names = [wrapper.name for wrapper in launch.wrappers]
        if names[:2] == ["timeout", "srun"] and launch.wrappers[0].option("-s", "--signal") in (
            None,
            "TERM",
            "SIGTERM",
            "15",
        ):
            yield Hit(
                span=command.span,
                message="when `timeout` sends TERM, srun kills its tasks with KILL at once: they cannot save, and go back to their "
                "last regular checkpoint",
                remedy="write `timeout --signal=USR1 ...` if the program saves at USR1, or ask Slurm for it: `#SBATCH "
                "--signal=USR1@300`",
                severity=Severity.MAY_BE_LOST,
            )
            return


def _traps(script: BatchScript) -> Iterator[Hit]:
    for trap in script.traps:
        if all(name in ("EXIT", "ERR", "INT") for name in trap.signals):
            continue
        kills = list(kills_in(script, trap.body))
        if any(kill.signal in ("USR1", "USR2") for kill in kills) or any(_signals_steps(c) for c in trap.body):
            # TERM is the second step then, for what has not ended.
            continue
        for kill in kills:
            names = [target.wrappers[0].name for target in kill.targets if target.wrappers]
            by_name = kill.is_by_name and kill.command.arguments and kill.command.arguments[-1].text == "srun"
            if kill.signal in _KILLING and ("srun" in names or by_name):
                yield Hit(
                    span=kill.command.span,
                    message=f"srun does not pass {kill.signal} on: it kills its tasks with KILL at once, and nothing is saved",
                    remedy="send USR1 or USR2, which srun passes on, or let Slurm send it: `scancel --signal=TERM "
                    "$SLURM_JOB_ID`, which reaches the steps and not the shell",
                )
                return


def _signals_steps(command: Command) -> bool:
    return command.name == "scancel" and not command.has_word("--batch", "-b")


RULE = Rule(
    code="LG410",
    name="term-kills-tasks",
    severity=Severity.LOST,
    what="A trap, or `timeout`, that sends TERM, HUP or QUIT to an srun (`kill $SRUN_PID` sends TERM).",
    why="srun passes USR1 and USR2 on to its tasks. TERM, HUP and QUIT it takes for an order to end the step: it says `forcing "
    "job termination` and the tasks get KILL, so that what they were to save at TERM is lost.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'kill -TERM "$child"; wait "$child"' USR1
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'kill -USR1 "$child"; wait "$child"' USR1
wait "$child"
""",
    safe_to_ignore="The tasks have saved by another way before, and are only to end.",
    source="srun(1), SIGNALS AND ESCAPE SEQUENCES; seen with Slurm 22.05: at TERM, from `kill` and from `timeout`, srun "
    "said `forcing job termination` and its task was killed before it had saved; USR1 reached it",
    reads=BatchScript,
    check=check,
)
