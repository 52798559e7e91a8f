"""LG004: a comment that is meant to silence a finding, and does not."""

from collections.abc import Iterator

from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.suppression import Comment, Comments


def check(comments: Comments, context: Context) -> Iterator[Hit]:
    for comment in comments.comments:
        mistake = comment.mistake or _mistake(comment, comments.asked)
        if mistake:
            yield Hit(
                span=comment.span,
                message=f"this comment does not do what it says: {mistake}",
                remedy="`# lastgood: ignore LG101 because REASON` on the line of the finding or the one above; "
                "or take the comment out",
            )


def _mistake(comment: Comment, asked: frozenset[str]) -> str:
    from lastgood.audit.rules import is_rule

    unknown = [code for code in comment.codes if not is_rule(code)]
    if unknown:
        return f"there is no rule {unknown[0]}"
    unused = [code for code in comment.codes if code not in comment.silenced and code in asked]
    where = "in this file" if comment.lines is None else "there"
    return f"{unused[0]} finds nothing {where}" if unused else ""


RULE = Rule(
    code="LG004",
    name="ignore-comment",
    severity=Severity.NOTE,
    what="A comment `# lastgood: ignore ...` without a reason, with a code that no rule has, or where nothing is found.",
    why="A comment that silences nothing looks as if somebody had decided something. A later reader needs the reason to "
    "see whether it still holds.",
    bad="""\
#!/bin/bash
# lastgood: ignore LG101
#SBATCH --time=12:00:00
srun python train.py --resume
""",
    good="""\
#!/bin/bash
# lastgood: ignore LG101 because the site requeues every job
#SBATCH --time=12:00:00
srun python train.py --resume
""",
    safe_to_ignore="Never; take the comment out, or write down why it is there.",
    source="The comments are described in docs/how-to/audit.md",
    reads=Comments,
    check=check,
)
