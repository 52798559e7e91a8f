"""LG405: a trap that ends the attempt without a word to the program."""

from collections.abc import Iterator

from lastgood.audit.batch.handlers import handled
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command, Trap
from lastgood.audit.batch.signals import early_signal, is_in_background, kills_in, own_traps, shown
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity

_TALK = frozenset(
    """
    echo printf date : true logger exit return wait sleep [ [[ test local export set hostname squeue sacct sbatch scontrol
    trap if let
    """.split()
)


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or not asked.is_for_shell or script.uses_lastgood:
        return
    work = [(command, launch) for command, launch in script.work if is_in_background(script, command)]
    if not work:
        return
    for trap in own_traps(script, asked.name):
        if asked.name not in trap.signals or trap.is_ignore:
            continue
        for kill in kills_in(script, trap.body):
            if kill.is_of_pipe:
                program = kill.targets[0].words[0].text
                yield Hit(
                    span=kill.command.span,
                    message=f"`$!` of a pipe is its last command: {kill.signal} goes to {program}, not to the program in front "
                    "of it, which saves nothing",
                    remedy=f"write `program > >({program} ...) &` instead of `program | {program} ... &`",
                )
                return
        ends = _ends_attempt(script, trap)
        if ends and not any("TERM" in handled(_program(script, context, launch.python_script)) for _, launch in work):
            yield Hit(
                span=trap.span,
                message=f"the trap for {asked.name} {ends} without telling the program: what it did since its last checkpoint "
                f"is done again, although {shown(asked)} leaves {asked.lead_s:g} s to save",
                remedy=f"pass it on first: `kill -{asked.name} $child; wait $child`, where the program saves at "
                f"{asked.name}, and `child=$!` stands behind its `&`",
                severity=Severity.WASTEFUL,
            )
            return


def _program(script: BatchScript, context: Context, path: str) -> Program | None:
    return context.find_program(script.path, path) if path else None


def _ends_attempt(script: BatchScript, trap: Trap) -> str:
    """What the trap does to end the attempt; empty if it does not, or may tell the program something."""
    said = ""
    for command in trap.body:
        if command.name in script.shell.functions:
            continue
        if command.name not in _TALK or any(">" in r.operator and r.target.text not in _OUT for r in command.redirects):
            return ""
        said = said if _end(command) == "ends the script" and said else _end(command) or said
    return said


_OUT = ("/dev/null", "/dev/stderr", "/dev/stdout", "1", "2", "&1", "&2")


def _end(command: Command) -> str:
    if command.name == "scontrol" and any(word.text.startswith("requeue") for word in command.arguments):
        return "requeues the job"
    if command.name == "sbatch":
        return "submits the next job"
    return "ends the script" if command.name == "exit" else ""


RULE = Rule(
    code="LG405",
    name="trap-tells-nobody",
    severity=Severity.MAY_BE_LOST,
    what="A trap for the early signal that requeues or ends the job, but does not pass the signal on to the program, or "
    "passes it on to the wrong one.",
    why="The early signal with `B:` comes to the batch shell alone. The program learns of the end by TERM, KillWait seconds "
    "before it is killed, or not at all, and everything since its last checkpoint is done again.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'echo "time is up"; scontrol requeue "$SLURM_JOB_ID"' USR1
srun --kill-on-bad-exit=1 python train.py --resume &
wait
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'kill -USR1 "$child"; wait "$child"; scontrol requeue "$SLURM_JOB_ID"' USR1
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
wait "$child"
""",
    safe_to_ignore="The program saves so often that the work since its last checkpoint does not matter.",
    source="sbatch(1), --signal; seen with Slurm 22.05: such a job lost up to its whole interval at each of four limits; bash "
    "5.2: `$!` of `a | b &` is b",
    reads=BatchScript,
    check=check,
)
