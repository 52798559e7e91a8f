"""LG412: the program is to get a signal that it does not handle."""

from collections.abc import Iterator

from lastgood.audit.batch.handlers import handles
from lastgood.audit.batch.limits import in_words
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import DEADLY, early_signal, is_shell_script, name_of, reached, shown
from lastgood.audit.rule import Context, Hit, Rule, Severity

_NO_HANDLER = ("lmp", "lmp_mpi", "lmp_serial", "pw.x", "ph.x", "cp.x", "relion_refine", "relion_refine_mpi", "sleep")
"""Seen to die of each of these signals."""
_ABOVE = {"HUP": 1, "USR1": 10, "USR2": 12, "ALRM": 14, "TERM": 15, "XCPU": 24}


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked = early_signal(script)
    if asked is None or script.uses_lastgood or not is_shell_script(script):
        return
    for command, launch, signal in reached(script, asked):
        if signal not in DEADLY or any(w.name in ("torchrun", "accelerate", "deepspeed") for w in launch.wrappers):
            continue
        if _is_gromacs(launch) and signal in ("USR1",):
            yield Hit(
                span=command.span,
                message=f"GROMACS ignores {signal}: {shown(asked)} does nothing, and it runs on into the time limit",
                remedy="ask for TERM, at which it writes a checkpoint and stops, or give mdrun its time with `-maxh HOURS`",
            )
            return
        if launch.program in _NO_HANDLER or _is_python_without(script, context, launch, signal):
            yield Hit(
                span=command.span,
                message=f"{name_of(launch)} does not handle {signal}, which ends it (exit code {128 + _ABOVE[signal]}) about "
                f"{in_words(max(asked.lead_s, 60))} before the limit: it saves nothing, and the rest of its time is given away",
                remedy=_remedy(launch, signal),
            )
            return


def _is_gromacs(launch: Launch) -> bool:
    return launch.program in ("gmx", "gmx_mpi") and len(launch.words) > 1 and launch.words[1].text == "mdrun"


def _is_python_without(script: BatchScript, context: Context, launch: Launch, signal: str) -> bool:
    path = launch.python_script
    return bool(path) and handles(context.find_program(script.path, path), signal) is False


def _remedy(launch: Launch, signal: str) -> str:
    if launch.program.startswith("lmp"):
        return "stop it by its input: `fix halt` with a file, or `timer timeout`, and touch the file in a trap"
    if launch.program.endswith(".x"):
        return "stop it by its input: `max_seconds`, or touch `PREFIX.EXIT` in a trap"
    if launch.program.startswith("relion"):
        return "leave the signal out; RELION goes on from its last iteration with `--continue`"
    return (
        f"handle {signal} in the program: set a flag, and save and stop when the step is over; or leave `--signal` out"
    )


RULE = Rule(
    code="LG412",
    name="signal-ends-the-program",
    severity=Severity.MAY_BE_LOST,
    what="An early signal that comes to a program of which it is known that it does not handle it.",
    why="What a program does not handle ends it: USR1 gives exit code 138. The attempt is then over before its limit, with "
    "nothing saved since the last checkpoint, and counts as a failure.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@300
srun --kill-on-bad-exit=1 lmp -in restart.in
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 lmp -in restart.in
""",
    safe_to_ignore="It is meant to end early, so that what follows in the script has time.",
    source="signal(7); seen: LAMMPS, RELION, Quantum ESPRESSO die of TERM, USR1 and USR2 at once; GROMACS prints a line at USR1 "
    "and runs on",
    reads=BatchScript,
    check=check,
)
