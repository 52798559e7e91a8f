"""LG107: a trap ends the script with another exit code than the program's."""

from collections.abc import Iterator

from lastgood.audit.batch.exits import main_work
from lastgood.audit.batch.readers import consequence
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command, Trap
from lastgood.audit.rule import Context, Hit, Rule, Severity

_SIGNALS = ("TERM", "USR1", "USR2", "INT", "HUP", "XCPU")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    costs = consequence(script, context.policy)
    if costs is None or main_work(script) is None:
        return
    then, severity = costs
    codes = context.policy.requeue_codes if context.policy is not None else None
    for trap in script.traps:
        end = _end(trap)
        if end is None or trap.is_reset or trap.is_ignore:
            continue
        if "EXIT" in trap.signals and _is_always_zero(trap, end):
            yield Hit(
                span=trap.span,
                message="the EXIT trap ends the script with code 0, whatever the program's code was: when that fails, "
                f"{then}",
                remedy="begin the trap with `rc=$?` and end it with `exit $rc`, or without `exit`",
                severity=severity,
            )
        elif _is_warned(script, trap) and _is_always_zero(trap, end) and not _goes_on(script, trap):
            yield Hit(
                span=trap.span,
                message="when the warning comes, this trap ends the job with code 0: Slurm says COMPLETED, and nothing "
                "here brings the job back to finish its work",
                remedy="end the trap with `scontrol requeue $SLURM_JOB_ID`, or with an exit code that is in RequeueExit",
                severity=Severity.MAY_BE_LOST,
            )

        elif "TERM" in trap.signals and codes and (given := _code(trap, end)) is not None and given not in codes:
            yield Hit(
                span=trap.span,
                message=f"at the time limit this trap ends the job with code {given}, which RequeueExit does not list, whatever "
                "code the program gave: the job is not requeued",
                remedy=f"end it with the program's code, `wait $pid; exit $?`, or with `exit {min(codes)}`",
                severity=Severity.MAY_BE_LOST,
            )


def _code(trap: Trap, end: Command) -> int | None:
    """The code that it surely gives."""
    text = end.arguments[0].text if end.arguments else ""
    return int(text) if text.isdecimal() else 0 if _is_always_zero(trap, end) else None


def _end(trap: Trap) -> Command | None:
    """The `exit` that ends it in any case."""
    ends = [c for c in trap.body if c.name == "exit" and not c.around.is_conditional and not c.around.in_substitution]
    return ends[0] if ends else None


def _is_always_zero(trap: Trap, end: Command) -> bool:
    if not end.arguments:
        # Without a word it keeps the code in an EXIT trap; in another one it gives that of the command before.
        return False
    text = end.arguments[0].text
    before = [c for c in trap.body if c.begin < end.begin and c.around.function == end.around.function]
    is_echo = bool(before) and before[-1].name in ("echo", "printf", "date", "rm", "wait", "sleep", "touch")
    return text == "0" or (text == "${?}" and is_echo)


def _is_warned(script: BatchScript, trap: Trap) -> bool:
    """True if Slurm sends this trap's signal to the shell before the time limit."""
    target, _, name = script.header.value("signal").rpartition(":")
    return "B" in target.upper() and name.partition("@")[0].upper().removeprefix("SIG") in trap.signals


def _goes_on(script: BatchScript, trap: Trap) -> bool:
    """True if something brings the job back: the trap, a chain, or another job that waits."""
    if script.is_chained_array or "singleton" in script.header.value("dependency"):
        return True
    return any(c.name in ("sbatch", "scontrol") or not c.name for c in trap.body) or any(
        c.name == "sbatch" for c in script.commands
    )


RULE = Rule(
    code="LG107",
    name="trap-replaces-exit-code",
    severity=Severity.NOTE,
    what="A trap that ends the script with `exit 0`: on EXIT, or on the signal that Slurm sends before the time limit.",
    why="The code that a trap gives to `exit` is the job's. With an EXIT trap every crash is a success; with a trap on the "
    "warning the job is COMPLETED although its work is not, and is not continued.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'rm -rf "$TMPDIR/work"; exit 0' EXIT
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'rm -rf "$TMPDIR/work"' EXIT
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="Nobody reads the code, or another job continues the work after this one whatever its state.",
    source="bash(1), trap; seen with bash 5.2: `trap 'exit 0' EXIT; false` ends with 0, `trap 'rm x' EXIT; false` and "
    "`trap 'rm x; exit' EXIT; false` with 1, `trap 'echo x; exit $?' EXIT; false` with 0. Seen with Slurm 22.05: COMPLETED for "
    "the first; at the time limit the state is TIMEOUT also with `trap 'exit 0' TERM`, and a code in RequeueExit requeues",
    reads=BatchScript,
    check=check,
)
