"""LG112: an exit code of the script is in RequeueExit, and nothing limits how often."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.exits import lost_code, main_work
from lastgood.audit.batch.restarts import after_any_failure, counts_restarts
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity

_LIMIT = re.compile(r"RESTART_COUNT[^\n;]*?(-g[te]\b|>)(?:(?!\bfi\b).)*\Z", re.DOTALL)
_LOOK_BACK = 400


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    codes = context.policy.requeue_codes if context.policy is not None else None
    if not codes or script.uses_lastgood or script.header.get("no-requeue") is not None or not script.header.directives:
        return
    counts = counts_restarts(script)
    for command in script.commands:
        if command.name != "exit" or not command.arguments or not command.arguments[0].text.isdecimal():
            continue
        code = int(command.arguments[0].text)
        if code not in codes:
            continue
        if _is_behind_a_limit(script, command):
            yield Hit(
                span=command.span,
                message=f"the code that is meant to end the restarts, {code}, is itself in RequeueExit: the job comes back all "
                "the same",
                remedy="end with a code that RequeueExit does not list, such as `exit "
                f"{next(c for c in (3, 4, 5, 99, *range(1, 128)) if c not in codes)}`",
            )
            return
        if not counts and _is_common(script, command):
            yield Hit(
                span=command.span,
                message=f"{code} is in RequeueExit, and nothing counts: Slurm starts the job again as often as it ends with "
                "it, also without any progress",
                remedy='put `[ "${SLURM_RESTART_COUNT:-0}" -lt 20 ] || exit 3` before it',
            )
            return
    found = main_work(script)
    if found is None or counts or 1 not in codes or found[0].around.is_background or found[0].around.is_condition:
        return
    if lost_code(script, found[0]) is None:
        yield Hit(
            span=found[0].span,
            message="RequeueExit lists 1, the code of every Python error: such an error starts the job again, as often as it "
            "occurs",
            remedy='end with another code: `srun ... || { [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ] && exit 1; exit 3; }`',
        )


def _is_common(script: BatchScript, command: Command) -> bool:
    """Every failure, or every end of the script, comes to it; a code that is passed on, or a signal's, is a decision."""
    around = command.around
    is_plain = not (around.is_conditional or around.function or around.within or around.loops)
    return is_plain or after_any_failure(script, command)


def _is_behind_a_limit(script: BatchScript, command: Command) -> bool:
    before = script.source.text(max(0, command.begin - _LOOK_BACK), command.begin)
    return command.around.is_conditional and _LIMIT.search(before) is not None


RULE = Rule(
    code="LG112",
    name="requeue-exit-without-limit",
    severity=Severity.WASTEFUL,
    what="With the cluster's settings: a script that ends with a code in RequeueExit and does not count, or whose code for "
    "too many restarts is listed there, too.",
    why="Slurm requeues after a listed code without end: MaxBatchRequeue counts failed launches only. A job that dies at the "
    "same step each time comes back until somebody notices.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume || exit 75
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ "${SLURM_RESTART_COUNT:-0}" -ge 20 ]; then
    echo "too many restarts"
    exit 3
fi
srun --kill-on-bad-exit=1 python train.py --resume || exit 75
""",
    safe_to_ignore="The program ends with that code only after progress.",
    source="slurm.conf(5), RequeueExit and MaxBatchRequeue; seen with Slurm 22.05: 25 attempts in 260 s",
    reads=BatchScript,
    check=check,
    policy="ClusterName=x\nRequeueExit=75\n",
)
