"""LG005: a script that sbatch refuses, or that the system cannot start, as it stands."""

from collections.abc import Iterator

from lastgood.audit.batch.misplaced import is_template
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_MARK = b"\xef\xbb\xbf"
_TEMPLATES = ("{%", "{{", "<%", "${")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    data = script.source.data
    first = script.line(1)
    if data.startswith(_MARK):
        yield Hit(
            span=first,
            message="the file begins with a byte order mark, which no editor shows: sbatch does not see `#!` and refuses it",
            remedy="sed -i '1s/^\\xef\\xbb\\xbf//' FILE",
        )
    elif not (
        data.lstrip().startswith(b"#!") or script.source.line(1).lstrip().startswith(_TEMPLATES) or is_template(script)
    ):
        yield Hit(
            span=first,
            message="the first line names no interpreter: sbatch refuses such a script",
            remedy="begin with `#!/bin/bash`",
        )
    if b"\r\n" in data:
        line = data[: data.index(b"\r\n")].count(b"\n") + 1
        yield Hit(
            span=script.line(line),
            message="lines end as DOS ends them (CR LF): sbatch refuses such a script, and bash would take the CR for a "
            "part of each command",
            remedy="dos2unix FILE, or sed -i 's/\\r$//' FILE",
        )


RULE = Rule(
    code="LG005",
    name="refused-script",
    severity=Severity.NOTE,
    what="A script without `#!` in its first line, with a byte order mark, or with the line ends of DOS.",
    why="sbatch refuses it, so nothing is lost but time; a chain of jobs ends at such a script.",
    bad="""\
#SBATCH --time=12:00:00
#SBATCH --requeue
srun python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
srun python train.py --resume
""",
    safe_to_ignore="The file is a part that a program makes scripts of.",
    source="sbatch(1); sbatch's own messages: does not look like a batch script, contains DOS line breaks",
    reads=BatchScript,
    check=check,
)
