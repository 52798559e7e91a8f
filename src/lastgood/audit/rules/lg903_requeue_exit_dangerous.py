"""LG903: exit codes of errors, or of success, bring a job back."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core import errors
from lastgood.schedulers.slurm_text import parse_codes

_FINAL = (errors.EXIT_NO_PROGRESS, errors.EXIT_RESTART_LIMIT, errors.EXIT_OUT_OF_MEMORY_TWICE)
_DANGEROUS = {
    0: "0 is success: a job that is done runs again",
    1: "1 is any error of a program, such as an exception in Python",
    2: "2 is a wrong command line",
    126: "126 is a command that cannot be executed",
    127: "127 is a command that does not exist",
    130: "130 is Ctrl-C",
    134: "134 is a program that aborted",
    137: "137 is SIGKILL, and so out of memory",
    139: "139 is a crash of the program",
    143: "143 is a task ended by SIGTERM, also at the time limit",
    **dict.fromkeys(_FINAL, "82 to 84 are `lastgood` giving up"),
}
_TOLD = 3


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    for name in ("RequeueExit", "RequeueExitHold"):
        setting = policy.setting(name)
        if setting is None:
            continue
        codes = parse_codes(setting.value)
        reasons = list(dict.fromkeys(reason for code, reason in _DANGEROUS.items() if code in codes))
        if name == "RequeueExitHold":
            # A job that is held cannot run in a loop; one that is done has no reason to be kept.
            reasons = reasons[:1] if 0 in codes else []
        if not reasons:
            continue
        more = f" (and {len(reasons) - _TOLD} more)" if len(reasons) > _TOLD else ""
        fate = "is run again without end, as nothing limits these requeues" if name == "RequeueExit" else "is held"
        yield Hit(
            span=setting.span,
            path=setting.path,
            message=f"{', '.join(reasons[:_TOLD])}{more}: a job that ends so {fate}",
            remedy='`RequeueExit=75`: only codes that mean "saved, run me again"'
            if name == "RequeueExit"
            else "take 0 out of RequeueExitHold",
        )


RULE = Rule(
    code="LG903",
    name="requeue-exit-dangerous",
    severity=Severity.WASTEFUL,
    what="RequeueExit with 0, with 1, with codes of the shell or of signals, or with ranges that hold them.",
    why="An error comes again in the next attempt. Slurm counts only failed launches (MaxBatchRequeue), not "
    "requeues by exit code: a typo in a script then starts a job again for days, and takes its nodes from "
    "others. 137 is what srun gives for a task that ran out of memory. Codes by which a launcher says that it "
    "gave up must not be listed either.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
RequeueExit=1-9,137
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
RequeueExit=75
""",
    safe_to_ignore="Each job counts its own restarts (SLURM_RESTART_COUNT) and ends with another code after some.",
    source="slurm.conf(5), RequeueExit and MaxBatchRequeue; bash(1), exit status",
    reads=Policy,
    check=check,
)
