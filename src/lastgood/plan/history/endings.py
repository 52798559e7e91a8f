"""How runs end, by their state in Slurm's accounting: what is a failure of the machine, and what is not. Pure."""

import re

import msgspec


class Ending(msgspec.Struct, frozen=True):
    """One way to end, and whether it counts into the failure rate."""

    code: int
    name: str
    """In tables and JSON."""
    is_failure: bool = False
    """It came from outside the job, which did nothing wrong: node, preemption, requeue."""
    is_of_machine: bool = False
    """A node, not the policy or a person, was the reason."""
    has_ended: bool = True


COMPLETED = Ending(0, "completed")
PROGRAM = Ending(1, "program error")
OUT_OF_MEMORY = Ending(2, "out of memory")
TIME_LIMIT = Ending(3, "time limit")
DEADLINE = Ending(4, "deadline")
CANCELLED = Ending(5, "cancelled")
CANCELLED_BY_ROOT = Ending(6, "cancelled by root")
NODE = Ending(7, "node failure", is_failure=True, is_of_machine=True)
BOOT = Ending(8, "boot failure", is_failure=True, is_of_machine=True)
LAUNCH = Ending(9, "launch failure", is_failure=True, is_of_machine=True)
PREEMPTED = Ending(10, "preempted", is_failure=True)
REQUEUED = Ending(11, "requeued", is_failure=True)
RUN_AGAIN = Ending(12, "asked to run again")
REVOKED = Ending(13, "revoked")
RUNNING = Ending(14, "still running", has_ended=False)
WAITING = Ending(15, "waiting", has_ended=False)

ENDINGS = (
    COMPLETED,
    PROGRAM,
    OUT_OF_MEMORY,
    TIME_LIMIT,
    DEADLINE,
    CANCELLED,
    CANCELLED_BY_ROOT,
    NODE,
    BOOT,
    LAUNCH,
    PREEMPTED,
    REQUEUED,
    RUN_AGAIN,
    REVOKED,
    RUNNING,
    WAITING,
)
"""By code."""

_STATES = {
    **dict.fromkeys(["COMPLETED", "CD"], COMPLETED),
    **dict.fromkeys(["FAILED", "F", "SPECIAL_EXIT", "SE"], PROGRAM),
    **dict.fromkeys(["OUT_OF_MEMORY", "OOM"], OUT_OF_MEMORY),
    **dict.fromkeys(["TIMEOUT", "TO"], TIME_LIMIT),
    **dict.fromkeys(["DEADLINE", "DL"], DEADLINE),
    **dict.fromkeys(["CANCELLED", "CANCELED", "CA"], CANCELLED),
    **dict.fromkeys(["NODE_FAIL", "NF"], NODE),
    **dict.fromkeys(["BOOT_FAIL", "BF"], BOOT),
    **dict.fromkeys(["LAUNCH_FAILED", "RECONFIG_FAIL"], LAUNCH),
    **dict.fromkeys(["PREEMPTED", "PR"], PREEMPTED),
    **dict.fromkeys(["REQUEUED", "RQ"], REQUEUED),
    **dict.fromkeys(["REVOKED", "RV"], REVOKED),
    **dict.fromkeys(
        ["RUNNING", "R", "SUSPENDED", "S", "COMPLETING", "CG", "STOPPED", "ST", "SIGNALING", "SI", "STAGE_OUT", "SO"],
        RUNNING,
    ),
    **dict.fromkeys(["RESIZING", "RS", "POWER_UP_NODE", "CONFIGURING", "CF"], RUNNING),
    **dict.fromkeys(["PENDING", "PD", "REQUEUE_HOLD", "RH", "REQUEUE_FED", "RF", "RESV_DEL_HOLD"], WAITING),
}

_BY = re.compile(r"CANCELL?ED by (\d+)\Z", re.ASCII)
_NODE_REASONS = ("nodedown", "node_down", "nodefail", "joblaunchfailure", "launchfail", "prolog", "bootfail")


def ending_of(state: str) -> Ending | None:
    """What a state says; None for one that Slurm does not have.

    >>> ending_of("CANCELLED by 0").name, ending_of("CANCELLED by 1000").name, ending_of("OOM").name, ending_of("DONE")
    ('cancelled by root', 'cancelled', 'out of memory', None)
    """
    text = state.strip()
    if match := _BY.match(text):
        return CANCELLED_BY_ROOT if int(match[1]) == 0 else CANCELLED
    # What a narrow column has cut off ends with a plus; and flags follow a state after a comma.
    return _STATES.get(re.split(r"[,+ ]", text, maxsplit=1)[0].upper())


def is_reason_of_node(reason: str) -> bool:
    """A job that FAILED for this reason did not fail by its program.

    >>> is_reason_of_node("JobLaunchFailure"), is_reason_of_node("NonZeroExitCode")
    (True, False)
    """
    return reason.strip().lower().startswith(_NODE_REASONS)
