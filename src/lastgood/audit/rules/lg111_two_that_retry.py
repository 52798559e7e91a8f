"""LG111: a loop, or torchrun, starts the program again, and Slurm starts the loop again."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.exits import main_work
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.restarts import counts_restarts, may_be_requeued, requeues_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command, Loop
from lastgood.audit.rule import Context, Hit, Rule, Severity

_ENDLESS = re.compile(r"(true|:|\[ 1 \]|\[\[ 1 \]\]|\(\( *1 *\)\)|\[ true \])\Z")
_NO_RESTART = ("", "0")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood or not script.header.directives:
        return
    # The default of a cluster is no decision of the script's.
    is_requeued = script.header.get("requeue") is not None or any(requeues_itself(script, c) for c in script.commands)
    job = main_work(script)
    for command, launch in script.work:
        if not command.around.loops and launch.wrapper("torchrun") is None:
            continue
        loop = _retries(script, command) if _is_the_job(job, command, launch) else None
        if loop is not None and not counts_restarts(script):
            again = ", and Slurm's requeue starts the loop again: two that retry" if is_requeued else ""
            yield Hit(
                span=command.span,
                message=f"this `{loop.kind}` loop starts the program again after every failure{again}: one that does not pass, "
                "such as an error in the program, is repeated until the time limit",
                remedy="leave the retry to Slurm (`--requeue`), or count: `for attempt in 1 2 3; do ... && break; done`",
                severity=Severity.WASTEFUL if is_requeued else Severity.NOTE,
            )
            return
        restarts = _own_restarts(launch)
        if restarts and is_requeued:
            codes = context.policy.requeue_codes if context.policy is not None else None
            also = (
                f", and so does RequeueExit for {_some(codes)}"
                if codes and may_be_requeued(script, context.policy)
                else ""
            )
            yield Hit(
                span=command.span,
                message=f"torchrun starts the workers again up to {restarts} times, and Slurm's requeue starts torchrun "
                f"again{also}: the counts multiply, and no one of them sees the other",
                remedy="write `--max-restarts=0` and leave the retry to Slurm",
                severity=Severity.WASTEFUL if also else Severity.NOTE,
            )
            return


def _is_the_job(job: tuple[Command, Launch] | None, command: Command, launch: Launch) -> bool:
    """No watcher beside it, and no pump of a database."""
    is_one = job is not None and job[0] is command
    return command.around.is_condition or (
        is_one and not command.around.is_background and bool(launch.wrappers or launch.python_script)
    )


def _retries(script: BatchScript, command: Command) -> Loop | None:
    """The endless loop that runs the command again when it failed."""
    text = script.source.text(command.begin, command.end)
    for loop in command.around.loops:
        condition = loop.condition.strip()
        if loop.kind == "for":
            continue
        if command.around.is_condition:
            # `until program` and `while ! program`
            begins = condition if loop.kind == "until" else condition.removeprefix("!").lstrip()
            if begins.startswith(text) and (loop.kind == "until" or condition.startswith("!")):
                return loop
        if _ENDLESS.match(condition) and not _varies(script, command, loop):
            return loop
    return None


def _varies(script: BatchScript, command: Command, loop: Loop) -> bool:
    """Each turn does other work: a variable of the command is set in the loop."""
    changed = {
        assignment.name
        for assignment in script.shell.assignments
        if loop in assignment.around.loops and "?" not in (assignment.value.variables if assignment.value else ())
    }
    names = {name for word in command.words for name in word.variables}
    return bool(names & changed) or any(
        other.name in ("read", "shift") and loop in other.around.loops for other in script.commands
    )


def _own_restarts(launch: Launch) -> str:
    wrapper = launch.wrapper("torchrun")
    count = wrapper.option("--max-restarts", "--max_restarts") if wrapper is not None else None
    return "" if count is None or count in _NO_RESTART else count


def _some(codes: frozenset[int]) -> str:
    return f"code {min(codes)}" if len(codes) == 1 else f"{len(codes)} codes"


RULE = Rule(
    code="LG111",
    name="two-that-retry",
    severity=Severity.WASTEFUL,
    what="A loop without a count around the program, or torchrun with `--max-restarts`, in a job that is requeued, too.",
    why="Each of them retries what it sees, and none knows of the other: an error that does not pass is repeated as often as "
    "their counts multiplied, or until the time limit. One must own the retry.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
until srun --kill-on-bad-exit=1 python train.py --resume; do
    sleep 10
done
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The loop ends by itself for errors that do not pass.",
    source="torchrun --max-restarts; sbatch(1), --requeue",
    reads=BatchScript,
    check=check,
)
