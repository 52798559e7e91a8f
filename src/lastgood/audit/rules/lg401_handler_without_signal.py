"""LG401: something waits for a signal that nobody asks Slurm to send."""

import ast
from collections.abc import Iterator

from lastgood.audit.batch.handlers import handled
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import is_shell_script, own_traps
from lastgood.audit.python.program import Program
from lastgood.audit.rule import Context, Hit, Rule, Severity

_ON_REQUEST = ("USR1", "USR2")
"""Signals that Slurm sends only where a job asks for them."""
_LIGHTNING = ("lightning", "pytorch_lightning")
_WITHOUT_SLURM = (b"SLURM_JOB_NAME", b"auto_requeue=False")
"""With these words a program tells Lightning that it is not to requeue: a job that is called `bash` is an interactive one."""


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or script.uses_lastgood or is_short(script):
        return
    if b"--signal" in script.source.data or not is_shell_script(script):
        return
    if own_traps(script, "TERM"):
        # It has something for the time limit, too.
        return
    for trap in own_traps(script, *_ON_REQUEST):
        name = next((name for name in trap.signals if name in _ON_REQUEST), "")
        if not name or _sends(script, name):
            continue
        yield Hit(
            span=trap.span,
            message=f"a trap for {name}, but nothing asks Slurm to send {name}: unless sbatch is called with `--signal`, "
            "it never runs, and the time limit ends the job without warning",
            remedy=f"add `#SBATCH --signal=B:{name}@300`",
        )
        return
    yield from _programs(script, context)


def _programs(script: BatchScript, context: Context) -> Iterator[Hit]:
    for command, launch in script.work:
        path = launch.python_script
        program = context.find_program(script.path, path) if path else None
        if program is None:
            continue
        names = handled(program)
        asked = next((name for name in _ON_REQUEST if name in names), "")
        if asked and "TERM" not in names and not _sends(script, asked):
            yield Hit(
                span=command.span,
                message=f"{path} handles {asked}, but nothing asks Slurm to send {asked}: unless sbatch is called with "
                "`--signal`, its handler never runs",
                remedy=f"add `#SBATCH --signal={asked}@300`"
                + ("" if launch.wrapper("srun") is not None else ", and start it with srun"),
            )
            return
        if launch.wrapper("srun") is not None and _is_lightning(program):
            yield Hit(
                span=command.span,
                message=f"{path} uses Lightning, which saves and requeues at USR1 under Slurm, but nothing asks for USR1: "
                "unless sbatch is called with `--signal`, the time limit ends the job without it",
                remedy="add `#SBATCH --signal=SIGUSR1@120`, with a lead that a step and a save fit in",
                severity=Severity.NOTE,
            )
            return


def _sends(script: BatchScript, name: str) -> bool:
    """The script sends the signal itself, from a watchdog or the like."""
    return any(
        command.name in ("kill", "pkill", "scancel") and name in " ".join(word.text for word in command.arguments)
        for command in script.commands
        if command.around.within != "trap"
    )


def _is_lightning(program: Program) -> bool:
    if any(word in program.source.data for word in _WITHOUT_SLURM):
        return False
    imports = {
        name.partition(".")[0]
        for node in ast.walk(program.tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
    }
    return bool(imports & set(_LIGHTNING)) and any(
        isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Trainer") for node in ast.walk(program.tree)
    )


RULE = Rule(
    code="LG401",
    name="handler-without-signal",
    severity=Severity.MAY_BE_LOST,
    what="A trap or a program that waits for USR1 or USR2, in a job that does not ask Slurm for a signal.",
    why="Slurm sends USR1 or USR2 only where a job asks for it with `--signal`. Without it the time limit comes as TERM, "
    "with KillWait (30 s by default) until KILL, and what the handler should have saved is lost.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume &
child=$!
trap 'kill -USR1 "$child"' USR1
wait "$child"
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun python train.py --resume &
child=$!
trap 'kill -USR1 "$child"' USR1
wait "$child"
wait "$child"
""",
    safe_to_ignore="The script is always submitted with `sbatch --signal=...`, or another program sends the signal.",
    source="sbatch(1), --signal; Lightning's documentation of clusters: `--signal=SIGUSR1@90` for its automatic requeue",
    reads=BatchScript,
    check=check,
)
