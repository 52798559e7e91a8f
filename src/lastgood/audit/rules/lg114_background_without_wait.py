"""LG114: the script ends while its program still runs in the background."""

from collections.abc import Iterator

from lastgood.audit.batch.readers import shown
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity

_STAYS = ("wait", "tail", "sleep", "fg", "read", "watch", "inotifywait", "parallel")
_LEAVES = ("screen", "tmux", "sbatch", "daemon", "nohup")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or script.uses_lastgood:
        return
    work = script.work
    children = [(command, launch) for command, launch in work if command.around.is_background]
    if not children or len(children) != len(work):
        return
    if any(_stays(script, command) for command in script.commands) or script.shell.unreadable:
        return
    command, launch = children[-1]
    if command.around.function or any(wrapper.name in _LEAVES for wrapper in launch.wrappers):
        return
    yield Hit(
        span=command.span,
        message=f"the script ends right after it started {shown(script, command)} in the background, with no `wait`: the job "
        "is over, and Slurm kills the program",
        remedy="add `wait $!` at the end",
    )


def _stays(script: BatchScript, command: Command) -> bool:
    """It keeps the script running: it waits, or we do not know it."""
    launch = script.launch(command)
    return launch.program in _STAYS or not launch.program or any(loop.kind != "for" for loop in command.around.loops)


RULE = Rule(
    code="LG114",
    name="background-without-wait",
    severity=Severity.LOST,
    what="All programs of the script are started with `&`, and nothing waits for them.",
    why="The job ends with its script. What still runs in the background is killed at once.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume &
echo "started"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume &
echo "started"
wait $!
""",
    safe_to_ignore="The program leaves the job on purpose, as a server elsewhere does.",
    source="seen with Slurm 22.05: COMPLETED after 3 s, and neither a step nor a child of the shell did its work",
    reads=BatchScript,
    check=check,
)
