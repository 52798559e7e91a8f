"""LG501: a step of tasks that wait for each other goes on when one of them has died."""

from collections.abc import Iterator

import msgspec

from lastgood.audit.batch.handlers import handled
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.programs import Launch, Wrapper
from lastgood.audit.batch.ranks import are_coupled, task_count
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import early_signal
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Edit


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or script.uses_lastgood or is_short(script):
        return
    if (context.policy is not None and context.policy.is_true("KillOnBadExit")) or _is_exported(script):
        return
    hits = list(_hits(script, context))
    if not hits:
        return
    # Said once, where it can be mended, and mended everywhere.
    first = next((hit for hit in hits if hit.edits), hits[0])
    edits = tuple(dict.fromkeys(edit for hit in hits for edit in hit.edits))
    yield msgspec.structs.replace(first, edits=edits)


def _hits(script: BatchScript, context: Context) -> Iterator[Hit]:
    known = "KillOnBadExit=0" if context.policy is not None else "unless the cluster has KillOnBadExit=1"
    for command, launch in script.work:
        srun = launch.wrapper("srun")
        if srun is None or _is_bounded(srun) or _is_unclear(launch, srun) or _is_benchmark(launch):
            continue
        count = task_count(script, launch)
        why = are_coupled(script, context, command, launch) if count is not None and count > 1 else ""
        if not why:
            continue
        yield Hit(
            span=srun.words[0].span,
            message=f"when one of the {count} tasks dies, srun leaves the others running ({known}): they work together ({why}) "
            "and may wait for it until the time limit",
            remedy="write `srun --kill-on-bad-exit=1 ...`",
            edits=_edits(script, context, launch, srun),
        )


def _is_exported(script: BatchScript) -> bool:
    return any(a.name in ("SLURM_KILL_BAD_EXIT", "SLURM_WAIT") for a in script.shell.assignments)


def _is_bounded(srun: Wrapper) -> bool:
    """The others are ended when one has ended, at once or after `--wait` seconds."""
    return srun.option("-K", "--kill-on-bad-exit") is not None or srun.option("-W", "--wait") not in (None, "0")


def _is_benchmark(launch: Launch) -> bool:
    """It is over in minutes, and nothing of it is kept."""
    return any("bench" in word.text for word in launch.words[:4])


def _is_unclear(launch: Launch, srun: Wrapper) -> bool:
    """Options come from variables that the script does not set."""
    return launch.wrapper("unknown") is not None or any(word.variables and len(word.parts) == 1 for word in srun.words)


def _edits(script: BatchScript, context: Context, launch: Launch, srun: Wrapper) -> tuple[Edit, ...]:
    """Only where no task ends with a code of its own after it has saved: that would end the others in their saves."""
    word = srun.words[0]
    is_written = script.source.text(word.begin, word.end).rpartition("/")[2] == "srun"
    program = context.find_program(script.path, launch.python_script) if launch.python_script else None
    if not is_written or early_signal(script) is not None or handled(program) or script.traps:
        return ()
    return (Edit(word.end, word.end, " --kill-on-bad-exit=1"),)


RULE = Rule(
    code="LG501",
    name="step-outlives-task",
    severity=Severity.WASTEFUL,
    what="srun with several tasks that work together, without `--kill-on-bad-exit`.",
    why="When a task of such a step dies, the others wait for it in their next exchange. Slurm ends a step only when all its "
    "tasks have ended, so it holds its nodes without a step forward, up to a library's own timeout or the time limit, and "
    "no restart comes.",
    bad="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000))
srun python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000))
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The tasks do not depend on each other, slurm.conf has KillOnBadExit=1, or a watchdog in the program ends it.",
    source="srun(1), --kill-on-bad-exit and --wait; slurm.conf(5), KillOnBadExit; pytorch#76287; seen with Slurm 22.05: tasks at a "
    "barrier of files ran on until they were stopped, with gloo they ended after seconds. mpirun of Open MPI 4.1.4 was seen "
    "to end the other ranks by itself",
    reads=BatchScript,
    check=check,
)
