"""Who reads a job's exit code, and what it costs them if it is not the program's. Pure."""

from lastgood.audit.batch.exits import Item
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.policy import Policy
from lastgood.audit.rule import Severity

_WIDEST = 44


def consequence(script: BatchScript, policy: Policy | None) -> tuple[str, Severity] | None:
    """What happens when the program fails and the job's code says otherwise; None where nobody would mind.

    The end of a sentence that begins "when it fails".
    """
    if script.uses_lastgood or not script.header.directives:
        return None
    codes = policy.requeue_codes if policy is not None else None
    if codes and script.header.get("no-requeue") is None:
        return f"RequeueExit={_ranges(codes)} does not see it, and Slurm says COMPLETED", Severity.MAY_BE_LOST
    if _starts_a_follower(script):
        return "Slurm says COMPLETED, and the job that this one submits with afterok starts", Severity.WASTEFUL
    if is_short(script):
        return None
    mail = script.header.value("mail-type").upper()
    if "FAIL" in mail or "ALL" in mail:
        return "Slurm says COMPLETED, also by mail, and a job that waits with afterok starts", Severity.NOTE
    return "Slurm says COMPLETED, and a job that waits with afterok starts", Severity.NOTE


def shown(script: BatchScript, item: Item) -> str:
    """A command as it is written, shortened, for a message."""
    text = " ".join(script.source.text(item.begin, item.end).replace("\\\n", " ").split("\n")[0].split())
    return f"`{text}`" if len(text) <= _WIDEST else f"`{text[: _WIDEST - 4].rstrip()} ...`"


def _starts_a_follower(script: BatchScript) -> bool:
    """True if the script submits a job that waits for its own success."""
    return any(
        command.name == "sbatch"
        and any("afterok" in word.text and "SLURM_JOB" in "".join(word.variables) for word in command.arguments)
        for command in script.commands
    )


def _ranges(codes: frozenset[int]) -> str:
    """
    >>> _ranges(frozenset({75, 1, 2, 3}))
    '1-3,75'
    """
    runs: list[list[int]] = []
    for code in sorted(codes):
        if runs and runs[-1][-1] == code - 1:
            runs[-1].append(code)
        else:
            runs.append([code])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
