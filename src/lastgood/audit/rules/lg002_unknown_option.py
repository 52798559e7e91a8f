"""LG002: an option that sbatch does not know."""

import difflib
import re
from collections.abc import Iterator

from lastgood.audit.batch.directives import NAMES, Directive
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_PLACEHOLDERS = re.compile(r"[{<]{2}|[{<]%|\[[a-z]+ |<[\w -]+>|\$[({]|@@")
_RENAMED = {"workdir": "chdir"}
_OF_SRUN = frozenset(
    """
    disable-status epilog exact interactive kill-on-bad-exit label mpi msg-timeout multi-prog no-allocate overlap
    preserve-env prolog pty relative slurmd-debug task-epilog task-prolog threads unbuffered wait-for-children whole
    """.split()
)


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    seen = set()
    for directive in script.header.directives:
        line = directive.span.line
        if directive.is_known or line in seen or _PLACEHOLDERS.search(script.source.line(line)):
            continue
        seen.add(line)
        yield from _about(directive, has_dash=script.source.data[directive.begin : directive.begin + 1] == b"-")


def _about(directive: Directive, *, has_dash: bool) -> Iterator[Hit]:
    name = directive.name
    if not has_dash:
        remedy = "put the value in quotes if it holds blanks, or `#` in front of a remark"
        yield _hit(directive, f"`{name}` is no option", remedy)
    elif name in _OF_SRUN:
        yield _hit(directive, f"`--{name}` is an option of srun", "give it to srun")
    elif name in _RENAMED:
        yield _hit(directive, f"sbatch has no option `{name}` any more", f"write `--{_RENAMED[name]}`")
    elif not name.startswith("container-") and (near := difflib.get_close_matches(name, NAMES, 1, 0.75)):
        # Containers have options of a plugin.
        yield _hit(directive, f"sbatch has no option `{name}`", f"did you mean `--{near[0]}`?")


def _hit(directive: Directive, what: str, remedy: str) -> Hit:
    return Hit(span=directive.span, message=f"{what}: sbatch refuses the whole script", remedy=remedy)


RULE = Rule(
    code="LG002",
    name="unknown-option",
    severity=Severity.NOTE,
    what="A word on a `#SBATCH` line that is no option of sbatch: misspelled, of srun, or a piece of a value with blanks.",
    why="sbatch refuses such a script, so nothing is lost but time; a script that others submit, or that submits itself "
    "again, stops there.",
    bad="""\
#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mod=append
#SBATCH --kill-on-bad-exit
#SBATCH --job-name=first try
#SBATCH --ntasks-pernode=4
srun python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --job-name="first try"
#SBATCH --ntasks-per-node=4
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="A newer sbatch, or a plugin of the site, has that option.",
    source="sbatch(1); tried with sbatch 22.05, which refuses what it does not know",
    reads=BatchScript,
    check=check,
)
