"""LG407: a program that saves at TERM, under a shell that dies of TERM before it has saved."""

from collections.abc import Iterator

from lastgood.audit.batch.handlers import handled
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import (
    early_signal,
    ends_by_itself,
    foreground_work,
    is_replaced,
    is_shell_script,
    own_traps,
    reads_other_scripts,
)
from lastgood.audit.rule import Context, Hit, Rule, Severity

_THROUGH = ("srun", "env", "nice", "numactl", "taskset", "time", "stdbuf", "container")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if early_signal(script) is not None or script.uses_lastgood or is_short(script) or not is_shell_script(script):
        return
    if own_traps(script, "TERM") or is_replaced(script) or reads_other_scripts(script):
        return
    if b"--signal" in script.source.data or not script.header.directives:
        return
    for command, launch in foreground_work(script):
        saves = _saves_at_term(script, context, launch)
        if not saves or ends_by_itself(launch) or any(w.name not in _THROUGH for w in launch.wrappers):
            continue
        is_last = not script.follows(command) and not command.around.loops and not command.around.function
        first = "srun" if launch.wrapper("srun") is not None else saves
        yield Hit(
            span=command.span,
            message=f"{saves} saves at TERM, but at the time limit and at scancel the shell gets TERM, too, and ends first: "
            f"Slurm may then kill {saves} before it has saved",
            remedy=f"write `exec {first} ...` on the last line"
            if is_last
            else "put `trap : TERM` above it, so that the shell lives until the program has saved",
            severity=Severity.NOTE if saves == "gmx mdrun" else None,
        )
        return


def _saves_at_term(script: BatchScript, context: Context, launch: Launch) -> str:
    """The program's name, if it surely handles TERM."""
    if launch.program == "gmx" and len(launch.words) > 1 and launch.words[1].text == "mdrun":
        # Without -cpi the next start does not use what was saved.
        return "gmx mdrun" if launch.has_argument("-cpi") else ""
    path = launch.python_script
    program = context.find_program(script.path, path) if path else None
    return path.rpartition("/")[2] if "TERM" in handled(program) else ""


RULE = Rule(
    code="LG407",
    name="shell-ends-before-program",
    severity=Severity.MAY_BE_LOST,
    what="A program that saves at TERM, run in the foreground of a shell without a trap for TERM and without `exec`.",
    why="At the time limit, at scancel and at a preemption Slurm sends TERM to the program and to the batch shell. A shell "
    "without a trap dies of it at once, and with the batch script gone what still runs is killed: KillWait is not waited "
    "for. `exec` puts the program in the shell's place; a trap keeps the shell alive.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx mdrun -deffnm md -cpi md.cpt -append
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
exec gmx mdrun -deffnm md -cpi md.cpt -append
""",
    safe_to_ignore="What the program did since its last regular checkpoint does not matter.",
    source="seen with Slurm 22.05 (proctrack/pgid), at the time limit and at scancel: a program in the foreground of a "
    "shell without a trap, with srun or without, was killed before it had saved; with `exec`, or with `trap : "
    "TERM`, it saved. Other process trackers may differ",
    reads=BatchScript,
    check=check,
)
