"""LG612: GROMACS is killed at the time limit, or saves too seldom."""

from collections.abc import Iterator

from lastgood.audit.batch.applications import Mdrun, mdruns
from lastgood.audit.batch.limits import in_words, is_short, time_limit_s
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_DEFAULT_MINUTES = 15
_SELDOM_MINUTES = 60
_LITTLE_MINUTES = 10
_STOPS_AT = 0.99


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or is_short(script) or script.uses_lastgood:
        return
    limit_s = time_limit_s(script)
    for run in mdruns(script):
        if not run.is_production:
            continue
        yield from _interval(run)
        if limit_s is not None and limit_s != float("inf"):
            yield from _end(script, run, limit_s)


def _interval(run: Mdrun) -> Iterator[Hit]:
    minutes = _number(run, "-cpt")
    at = run.value("-cpt")
    if minutes is None or at is None:
        return
    if minutes < 0:
        yield Hit(
            span=at.span,
            message="`-cpt -1` switches checkpoints off, also the one at the end of the time: whatever ends the job, all of it is lost",
            remedy="leave `-cpt` out (a checkpoint every 15 minutes), or give minutes",
            severity=Severity.LOST,
        )
    elif minutes > _SELDOM_MINUTES:
        yield Hit(
            span=at.span,
            message=f"a checkpoint every {in_words(minutes * 60)}: a dead node costs up to that much, and a checkpoint takes GROMACS a "
            "second or so",
            remedy="`-cpt 15`, the default",
            severity=Severity.NOTE,
        )


def _end(script: BatchScript, run: Mdrun, limit_s: float) -> Iterator[Hit]:
    hours = _number(run, "-maxh")
    at = run.value("-maxh")
    if hours is not None and at is not None and hours * 3600 * _STOPS_AT >= limit_s:
        yield Hit(
            span=at.span,
            message=f"`-maxh {at.text}` stops the run after {hours * _STOPS_AT:.4g} h, and the job's time limit of {in_words(limit_s)} is "
            "there first: it never acts",
            remedy=f"`-maxh {_fitting(limit_s)}`",
        )
    elif not run.has("-maxh") and run.has("-cpi") and run.is_plain and not _is_told(script, run):
        minutes = _number(run, "-cpt") or _DEFAULT_MINUTES
        if minutes < _LITTLE_MINUTES:
            return
        yield Hit(
            span=run.launch.words[0].span,
            message="nothing stops GROMACS before the time limit: the kill comes between two checkpoints, and up to "
            f"{minutes:.3g} minutes of each segment are computed twice",
            remedy=f"add `-maxh {_fitting(limit_s)}`: it saves and ends by itself",
        )


def _is_told(script: BatchScript, run: Mdrun) -> bool:
    """True if SIGTERM at the limit reaches GROMACS and leaves it time to save."""
    is_step = run.launch.wrapper("srun") is not None
    return is_step or bool(script.traps) or any(w.name in ("exec", "timeout") for w in run.launch.wrappers)


def _number(run: Mdrun, option: str) -> float | None:
    word = run.value(option)
    try:
        return float(word.text) if word is not None else None
    except ValueError:
        return None


def _fitting(limit_s: float) -> str:
    """Hours that end a few minutes before a limit.

    >>> _fitting(24 * 3600.0), _fitting(3600.0)
    ('23.9', '0.9')
    """
    return f"{max(limit_s / 3600 - 0.1, limit_s / 3600 * 0.9):.3g}"


RULE = Rule(
    code="LG612",
    name="gromacs-stops-too-late",
    severity=Severity.NOTE,
    what="`gmx mdrun` without `-maxh` where nothing tells it of the time limit, with a `-maxh` beyond the limit, with checkpoints more than "
    "an hour apart (`-cpt`) or switched off (`-cpt -1`).",
    why="`-maxh` makes GROMACS save and end at 0.99 of the hours given. Without it the job is killed at the limit. A plain `gmx` or one "
    "behind `mpirun` is then gone before it has saved, and what it did since the last checkpoint is done again.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx mdrun -deffnm md -cpi md.cpt
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
gmx mdrun -deffnm md -cpi md.cpt -maxh 23.8
""",
    safe_to_ignore="The simulation is done long before the time limit.",
    source="gmx mdrun's manual, -maxh and -cpt; tried with GROMACS 2022.5 under Slurm 22.05",
    reads=BatchScript,
    check=check,
)
