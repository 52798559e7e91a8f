"""LG411: the shell does not wait for the program that it has just told to save."""

from collections.abc import Iterator

from lastgood.audit.batch.exits import has_errexit
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command, Trap
from lastgood.audit.batch.signals import early_signal, kills_in, name_of, own_traps
from lastgood.audit.rule import Context, Hit, Rule, Severity

_WAITING = ("wait", "sleep", "tail", "inotifywait")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if script.uses_lastgood:
        return
    names = {asked.name} if asked is not None and asked.is_for_shell else set()
    for trap in own_traps(script, "TERM", *names):
        if any(name in ("EXIT", "ERR") for name in trap.signals) or not _only_tells(script, trap):
            continue
        signal = next(name for name in trap.signals if name == "TERM" or name in names)
        program = next((name_of(t) for k in kills_in(script, trap.body) for t in k.targets), "the program")
        end = next((command for command in trap.body if command.name == "exit"), None)
        if end is not None:
            yield Hit(
                span=end.span,
                message=f"the trap tells {program} to save and ends the script at once: the job is over, and {program} is killed "
                "while it saves",
                remedy="put `wait` in front of this `exit`",
            )
            return
        in_trap = {command.begin for command in trap.body}
        waits = [c for c in script.commands if c.name == "wait" and c.begin not in in_trap and c.around.within != "-c"]
        if waits and _ends_script(script, waits[0]):
            yield Hit(
                span=waits[0].span,
                message=f"{signal} ends this `wait` with a code above 128, at which `set -e` ends the script while {program} "
                "still saves",
                remedy='write `wait "$child" || true` and then `wait "$child"`, or put `wait` behind the `kill` in the trap',
            )
            return
        if len(waits) == 1 and _is_single(script, waits[0]):
            yield Hit(
                span=waits[0].span,
                message=f"{signal} also ends this `wait`: the script goes on to its end while {program} still saves, and is killed "
                "together with the job",
                remedy="wait again: repeat the line below, or put `wait` behind the `kill` in the trap",
            )
            return


def _only_tells(script: BatchScript, trap: Trap) -> bool:
    """The trap passes a signal on to what runs in the background, and does not wait for it."""
    tells = any(kill.targets and kill.signal != "KILL" for kill in kills_in(script, trap.body)) or any(
        command.name == "scancel" and any(w.text.partition("=")[0] in ("-s", "--signal") for w in command.arguments)
        for command in trap.body
    )
    return tells and not any(c.name in _WAITING or c.around.loops or c.name in ("scontrol", "exec") for c in trap.body)


def _ends_script(script: BatchScript, wait: Command) -> bool:
    around = wait.around
    return has_errexit(script, wait.begin) and not (around.rescued_by or around.is_condition or around.function)


def _is_single(script: BatchScript, wait: Command) -> bool:
    """It stands in no loop, and nothing behind it takes long."""
    around = wait.around
    return not (
        around.loops
        or around.is_condition
        or around.rescued_by
        or around.function
        or any(c.name in _WAITING or c.around.loops for c in script.follows(wait))
        or any(command.begin > wait.end for command, _ in script.work)
    )


RULE = Rule(
    code="LG411",
    name="waits-only-once",
    severity=Severity.LOST,
    what="A single `wait` behind a program in the background, and a trap that tells the program to save but does not wait.",
    why="A signal with a trap ends `wait` at once, with a code above 128. The script then runs to its end within milliseconds, "
    "and when the batch script ends Slurm ends the job: what the program was saving is cut off, and the job counts as completed.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'kill -USR1 "$child"' USR1
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
trap 'kill -USR1 "$child"' USR1
wait "$child"
wait "$child"
""",
    safe_to_ignore="The program saves within milliseconds.",
    source="bash(1), SIGNALS; seen with Slurm 22.05 and bash 5.2: `wait` returned 138 after USR1, the script ended, the "
    "job was COMPLETED 0:0 and the program had saved nothing, with srun and without; with a second `wait` it "
    "saved",
    reads=BatchScript,
    check=check,
)
