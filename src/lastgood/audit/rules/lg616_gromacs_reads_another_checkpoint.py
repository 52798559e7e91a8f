"""LG616: GROMACS reads a checkpoint that it does not write."""

from collections.abc import Iterator

from lastgood.audit.batch.applications import Mdrun, mdruns
from lastgood.audit.batch.attempts import runs_again
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or is_short(script) or script.uses_lastgood:
        return
    runs = list(mdruns(script))
    # In another branch, or in the next line, the run may be taken up by its own name.
    resumed = {run.stem for run in runs if run.read_stem == run.stem}
    severity = Severity.LOST if runs_again(script, context) else None
    for run in runs:
        at = run.value("-cpi") or run.launch.words[0]
        if run.read_stem is None or not run.is_plain:
            continue
        if run.has("-cpnum"):
            yield Hit(
                span=at.span,
                message=f"with `-cpnum` GROMACS writes `{run.stem}_step*.cpt` and no `{run.stem}.cpt`: `-cpi {run.read_stem}.cpt` finds nothing, "
                "and each start begins at step 0 without an error",
                remedy="leave `-cpnum` out",
                severity=Severity.LOST,
            )
        elif run.read_stem != run.stem and run.stem not in resumed and not _is_previous(run):
            yield Hit(
                span=at.span,
                message=f"`-cpi` reads `{run.read_stem}.cpt`, and this run writes `{run.stem}.cpt`: a start after a failure goes back to where "
                f"`{run.read_stem}.cpt` is, or to step 0 if there is none",
                remedy=f"read what it writes, `-cpi {run.stem}.cpt`; to go on from another run, give its state to `gmx grompp -t` or "
                "`gmx convert-tpr` once",
                severity=severity,
            )


def _is_previous(run: Mdrun) -> bool:
    """GROMACS' own copy of the checkpoint before, `md_prev.cpt`."""
    return run.read_stem == f"{run.stem}_prev"


RULE = Rule(
    code="LG616",
    name="gromacs-reads-another-checkpoint",
    severity=Severity.MAY_BE_LOST,
    what="`gmx mdrun` whose `-cpi` names another file than the one that it writes (`-cpo`, `-deffnm` or `state.cpt`), or that also has "
    "`-cpnum`.",
    why="If the file that `-cpi` names is missing, GROMACS begins at step 0 and says nothing about it; if it is an old one, it begins there. "
    "The checkpoints of the attempt before are never read.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun gmx_mpi mdrun -deffnm md -cpi state.cpt -maxh 23.8
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun gmx_mpi mdrun -deffnm md -cpi md.cpt -maxh 23.8
""",
    safe_to_ignore="The run is one part of a longer one and is over long before the time limit.",
    source="gmx mdrun's manual, -cpi, -cpo, -cpnum; tried with GROMACS 2022.5",
    reads=BatchScript,
    check=check,
)
