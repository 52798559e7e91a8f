"""LG001: directives behind the first command."""

from collections.abc import Iterator

from lastgood.audit.batch.misplaced import first_command, is_about_failures, is_embedded, is_template, late_directives
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    known = {script.line(directive.span.line) for directive in script.header.directives}
    texts = {script.source.line(span.line).strip() for span in known}
    late = [span for span in late_directives(script) if script.source.line(span.line).strip() not in texts]
    if not late or is_template(script) or _is_behind_the_end(script, late[0].line):
        return
    if not (is_embedded(script) or script.source.line(1).startswith("#!")):
        # sbatch refuses it as it is: LG005 says so.
        return
    command = first_command(script)
    if script.source.line(command).lstrip().startswith(("{%", "{{", "$") if is_embedded(script) else ("{%", "{{")):
        # A template: no command will stand there, or the shell that writes it puts in directives.
        return
    others = len(late) - 1
    more = f" (and {others} further {'lines' if others > 1 else 'line'})" if others else ""
    yield Hit(
        span=late[0],
        message=f"sbatch does not see this line{more}: it stops looking at the first command, in line {command}; "
        "the job runs without what is asked for here",
        remedy=f"move it above line {command}",
        severity=None if is_about_failures(script, late) else Severity.NOTE,
    )


def _is_behind_the_end(script: BatchScript, line: int) -> bool:
    """Notes, or another script, behind an `exit` that is always reached."""
    return any(
        command.name == "exit"
        and command.span.line < line
        and not (command.around.is_conditional or command.around.loops or command.around.function)
        and not (command.around.in_subshell or command.around.within or command.around.in_substitution)
        for command in script.commands
    )


RULE = Rule(
    code="LG001",
    name="directive-too-late",
    severity=Severity.MAY_BE_LOST,
    what="A line `#SBATCH` behind the first command of a script.",
    why="sbatch reads directives up to the first line that is neither blank nor a comment; what comes later is a comment "
    "to it, and it says nothing. A `--requeue`, `--signal`, `--time` or `--open-mode` there is not in effect, which shows "
    "only when a node dies or the time is up.",
    bad="""\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --requeue
module load cuda
#SBATCH --signal=TERM@300
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --requeue
#SBATCH --signal=TERM@300
#SBATCH --open-mode=append
module load cuda
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The line was left there on purpose and is not needed; then write `##SBATCH`.",
    source="sbatch(1): directives must precede any executable commands",
    reads=BatchScript,
    check=check,
)
