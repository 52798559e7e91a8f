"""LG006: a variable on a #SBATCH line, which nobody fills in."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.misplaced import is_embedded, is_template
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}|\()|`|~/")
_PATHS = ("output", "error", "input", "chdir")
_INSTEAD = "%j, %A, %a and %u stand for job, array, task and user"


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if is_embedded(script) or is_template(script):
        # The shell that writes it, or another program, fills it in.
        return
    for directive in script.header.directives:
        match = _VARIABLE.search(directive.value)
        if match is None or directive.name not in _PATHS or (match[0] == "~/" and match.start()):
            continue
        what = "`~`" if match[0] == "~/" else f"`{match[0]}`" if match[0][-1] not in "(`" else "a command"
        if directive.name == "chdir" or "/" in directive.value[match.start() :]:
            then = "it looks for a directory of just that name, and where there is none the job ends at once, without a log"
        else:
            then = "the file gets just that name, and all jobs and array tasks write into one"
        yield Hit(
            span=directive.span,
            message=f"sbatch does not fill in {what} here: {then}",
            remedy=f"write the path out, or give it to sbatch: `sbatch --{directive.name}=...`; {_INSTEAD}",
        )


RULE = Rule(
    code="LG006",
    name="variable-in-directive",
    severity=Severity.NOTE,
    what="`$NAME`, `$(...)` or `~/` in a path of a `#SBATCH` line.",
    why="No shell reads these lines. Slurm takes the text as it is: it cannot open a file below a directory called `$HOME`, "
    "and ends the job without any output that would say why; and `log-$SLURM_ARRAY_TASK_ID` is one file for all tasks.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=$HOME/logs/%x-%j.log
srun python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=/home/ada/logs/%x-%j.log
srun python train.py --resume
""",
    safe_to_ignore="The file is filled in before it is submitted, such as with envsubst.",
    source="sbatch(1), FILENAME PATTERN",
    reads=BatchScript,
    check=check,
)
