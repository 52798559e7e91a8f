"""LG408: something stands between the signal and the program, and does not pass it on."""

from collections.abc import Iterator

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.signals import DEADLY, early_signal, reached
from lastgood.audit.rule import Context, Hit, Rule, Severity

_SHELLS = ("bash", "sh", "dash", "ksh", "zsh")
_ORDINARY = ("TERM", "INT", "HUP", "QUIT")
"""What timeout and torchrun pass on."""


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or script.uses_lastgood:
        return
    for command, launch, signal in reached(script, asked):
        hit = _wrapper(script, command, launch, signal) or _shell(script, command, launch, signal)
        if hit is not None:
            yield hit
            return


def _wrapper(script: BatchScript, command: Command, launch: Launch, signal: str) -> Hit | None:
    conda, torchrun = launch.wrapper("conda"), launch.wrapper("torchrun")
    if conda is not None and conda.words[0].text.endswith("conda"):
        return Hit(
            span=command.span,
            message=f"`conda run` does not pass {signal} on: it ends by itself, and the program that should save hears nothing",
            remedy="activate the environment above (`conda activate ENV`) and run the program without `conda run`",
        )
    if signal in _ORDINARY:
        return None
    if launch.wrapper("timeout") is not None:
        return Hit(
            span=command.span,
            message=f"`timeout` dies of {signal} and does not pass it on: the program that should save hears nothing",
            remedy="leave out `timeout`: the time limit does the same",
        )
    handled = torchrun.option("--signals-to-handle", "--signals_to_handle") if torchrun is not None else None
    if torchrun is None or signal in (handled or "") or "TORCHELASTIC_SIGNALS_TO_HANDLE" in _text(script):
        return None
    return Hit(
        span=command.span,
        message=f"torchrun dies of {signal} and does not pass it on to its workers, which may be killed before they have saved",
        remedy=f"add `--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIG{signal}` to torchrun, where it has that option, or "
        "ask for TERM, which it passes on",
    )


def _shell(script: BatchScript, command: Command, launch: Launch, signal: str) -> Hit | None:
    if signal not in DEADLY:
        return None
    if command.around.outer is not None and command.around.within == "-c":
        return _string(script, command, launch, signal)
    is_file = launch.program in _SHELLS and len(launch.words) > 1 and not launch.words[1].text.startswith("-")
    if not is_file and not launch.program.endswith((".sh", ".bash")):
        return None
    path = (launch.words[1] if is_file else launch.words[0]).text
    return Hit(
        span=command.span,
        message=f"{signal} may come to the shell that runs {path}, and not to what that starts: without a trap there, or `exec` "
        "in front of its program, the shell dies of it and nothing is saved",
        remedy=f"write `exec` in front of the program in {path}",
        severity=Severity.NOTE,
    )


def _string(script: BatchScript, command: Command, launch: Launch, signal: str) -> Hit | None:
    """A program in the string of `bash -c`."""
    others = [other for other in script.commands if other.around.outer is command.around.outer]
    if any(other.name in ("trap", "exec") for other in others) or launch.wrapper("exec") is not None:
        return None
    if command.around.is_background or command.around.in_substitution or len(others) < 2:
        return None
    program = launch.program or "the program"
    is_last = all(other.begin <= command.end for other in others)
    return Hit(
        span=command.span,
        message=f"{signal} may come to the shell of `-c` instead of {program}: an older bash, and sh on Debian, stay in between "
        "and die of it"
        if is_last
        else f"{signal} comes to the shell of `-c`, which dies of it: {program} is not its last command, so the shell stays in "
        "between",
        remedy=f"write `exec {program} ...` as the last command of the string",
        severity=Severity.NOTE if is_last else None,
    )


def _text(script: BatchScript) -> str:
    return script.source.text(0, len(script.source.data))


RULE = Rule(
    code="LG408",
    name="wrapper-keeps-signal",
    severity=Severity.MAY_BE_LOST,
    what="`conda run`, `timeout`, torchrun or a shell between srun (or a trap's `kill`) and the program that is to save at a "
    "signal.",
    why="A signal goes to one process. With most ways of process tracking Slurm signals the first process of a task only, "
    "and a wrapper that is not replaced by the program has to pass it on. These do not: they die of USR1 themselves, the "
    "step ends, and the program is killed without having saved.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
srun --kill-on-bad-exit=1 conda run -n env python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
conda activate env
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="cgroup.conf has SignalChildrenProcesses=yes, and the wrapper outlives the signal.",
    source="cgroup.conf(5), SignalChildrenProcesses; conda#10351; pytorch#154849. Seen with Slurm 22.05: behind `srun "
    "bash -c 'program; true'`, `srun sh -c`, `srun bash file` and `srun timeout` a step ended with 138 at USR1 "
    "and its program had not saved; bash 5.2 is replaced by the last command of `-c`, dash is not. Seen: torchrun "
    "of torch 2.13 ends at USR1 with 138, and its worker hears nothing. singularity (since 3.3) and apptainer "
    "pass signals on",
    reads=BatchScript,
    check=check,
)
