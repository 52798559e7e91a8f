"""LG406: a signal for steps in a script that starts none."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import early_signal, is_shell_script, name_of, reads_other_scripts, shown
from lastgood.audit.rule import Context, Hit, Rule, Severity

_MAY_START_STEPS = re.compile(rb"\b(srun|mpirun|mpiexec|prun|ibrun|orterun|hydra|submitit|parsl|dask|ray)\b")
_COMMENT = re.compile(rb"^\s*#.*$", re.MULTILINE)
_KNOWN = re.compile(
    r"(python|torchrun|gmx(_mpi)?|lmp\w*|pw\.x|relion_\w+|\w+Foam|Rscript|R|julia|matlab|namd\d|amber|pmemd[.\w]*|vasp\w*)\Z"
)
_PLAIN = ("env", "nice", "ionice", "time", "numactl", "taskset", "stdbuf", "nohup", "container", "conda", "uv", "torchrun",
          "accelerate", "deepspeed", "shell")  # fmt: skip


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or asked.is_for_shell or script.uses_lastgood or not is_shell_script(script):
        return
    if reads_other_scripts(script) or _MAY_START_STEPS.search(_COMMENT.sub(b"", script.source.data)):
        return
    if not script.work or not all(_is_plain(launch) for _, launch in script.work):
        return
    command, launch = script.work[-1]
    first = launch.wrappers[0].words[0] if launch.wrappers else launch.words[0]
    program = first.text.rpartition("/")[2]
    to_shell = f"--signal=B:{asked.text.removeprefix('R:')}"
    yield Hit(
        span=asked.span,
        message=f"{shown(asked)} goes to steps, and no srun starts one here: nobody gets it, {name_of(launch)} (line "
        f"{command.span.line}) first hears of the end when the time limit has come",
        remedy=f"start it with `srun {program} ...`, or ask for `{to_shell}` and pass it on in a trap",
    )


def _is_plain(launch: Launch) -> bool:
    """A program of which it is known that it starts no step by itself."""
    launchers = any(wrapper.name in ("torchrun", "accelerate", "deepspeed") for wrapper in launch.wrappers)
    return all(wrapper.name in _PLAIN for wrapper in launch.wrappers) and (
        launchers or bool(_KNOWN.match(launch.program)) or launch.program.endswith(".py")
    )


RULE = Rule(
    code="LG406",
    name="signal-reaches-nobody",
    severity=Severity.MAY_BE_LOST,
    what="`--signal=NAME` without `B:` in a script that starts nothing with srun.",
    why="Without `B:` Slurm sends the early signal to the job's steps, and only srun makes steps. A program that the script "
    "starts by itself belongs to the batch shell: it gets no early signal, only the TERM at the time limit, with KillWait "
    "(30 s by default) until it is killed.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The program starts steps by itself, and these handle the signal.",
    source="sbatch(1), --signal; seen with Slurm 22.05: a program without srun got nothing from a signal for steps and "
    "ran into its limit, one behind srun saved",
    reads=BatchScript,
    check=check,
)
