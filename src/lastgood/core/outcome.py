"""How an attempt ended, from several pieces of evidence. Pure; "unknown" is an answer.

An exit code alone proves little: 0 can be a program that stopped when told to, 1 can be any rank's
reaction to another rank's death. So the launcher gathers what it can and this module weighs it, most
direct evidence first.
"""

import re
from enum import StrEnum

import msgspec

from lastgood.core import errors
from lastgood.core.handback import Interruption
from lastgood.core.signals import SIGBUS, SIGINT, signal_name
from lastgood.core.stopping import TIME_LIMIT


class Outcome(StrEnum):
    FINISHED = "finished"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time limit"
    NODE_FAILURE = "node failure"
    OUT_OF_MEMORY = "out of memory"
    HANG = "hang"
    COMMUNICATION = "communication timeout"
    PROGRAM_ERROR = "program error"
    STORAGE_ERROR = "storage error"
    HARDWARE_ERROR = "hardware error"
    """A device or the memory of a node failed under the program: it may pass, and sooner on another node."""
    CANCELLED = "cancelled"
    KILLED = "killed"
    """Ended by a signal that nobody here sent, or a crash inside native code: it may pass."""
    REFUSED = "refused"
    """Our own library refused to start or to carry on, and says why."""
    LAUNCHER_LOST = "launcher lost"
    """Nobody was there to see the end: the launcher itself was killed, or its node died."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the launcher saw of one attempt's end."""

    exit_code: int | None = None
    signal: int | None = None
    """Number of the signal that ended the command; exactly one of exit_code and signal is given."""
    interruption: str = ""
    """Why the scheduler ends the allocation, one of core.handback's; empty if it does not."""
    stop_cause: str = ""
    """Why the launcher asked the command to stop: "SIGTERM", "SIGINT", "time limit" ... or empty."""
    was_forced: bool = False
    """It had to be killed because it did not stop within the grace time."""
    hang: str = ""
    """What stood still and for how long, if the launcher ended the attempt because of it."""
    oom_kills: int = 0
    """How many processes of the job's cgroup the kernel killed for memory during the attempt."""
    log_tail: str = ""
    exceptions: tuple[str, ...] = ()
    """What the program itself reported as raised, as "Type: text", oldest first."""
    has_library: bool = False
    """Our library ran in the program, so that an exit code of ours is meant as such: any other program may
    end with 74 or 80 and mean something else."""
    is_finished: bool = False
    """The job's marker says that all steps are done."""
    step: int | None = None
    """Last step that a heartbeat reported; None if the command never sent one."""
    total_steps: int | None = None


class Ending(msgspec.Struct, frozen=True):
    outcome: Outcome
    reason: str
    exit_code: int | None = None
    """Exit code to pass on where nobody retries; None to use the outcome's own."""


_OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory|^MemoryError|std::bad_alloc"
    r"|RESOURCE_EXHAUSTED: Out of memory|DefaultCPUAllocator: can't allocate memory"
    r"|^slurmstepd: error: Detected \d+ oom.kill event|^srun: error: .*: Out Of Memory$|^srun: error: .*: OOM Killed$",
    re.MULTILINE,
)
"""slurmstepd and srun speak of the cgroup of a step: https://slurm.schedmd.com/cgroup.conf.html (ConstrainRAMSpace)."""
_HARDWARE = re.compile(
    r"uncorrectable (?:ECC|NVLink) error|CUDA-capable device\(s\) is/are busy or unavailable|GPU is lost"
    r"|GPU has fallen off the bus|^srun: error: .*: Bus error(?: \(core dumped\))?$",
    re.MULTILINE,
)
"""What cudaGetErrorString says for cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable and
cudaErrorDevicesUnavailable (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html), NVML for
NVML_ERROR_GPU_IS_LOST, the driver for Xid 79 (https://docs.nvidia.com/deploy/xid-errors/), srun for SIGBUS. Not
cudaErrorLaunchFailure, nor a bus error of a loader's worker: those are mostly the program's own."""
_NODE_FAILURE = re.compile(r"^(?:srun: error: )?.*Node failure on \S+", re.MULTILINE)
"""srun, when slurmctld has given a node of the step up."""
_STORAGE = re.compile(
    r"\[Errno (?:5|28|30|122)\]|No space left on device|Input/output error|Disk quota exceeded|Read-only file system"
)
_COMMUNICATION = re.compile(
    r"Watchdog caught collective operation timeout|NCCL (?:error|communicator was aborted)|ncclRemoteError|ncclSystemError"
    r"|DistBackendError|DistNetworkError|Connection closed by peer|Connection reset by peer|Gloo connectFullMesh failed"
    r"|Timed out waiting \d+ms for (?:recv|send) operation|Application timeout caused pair closure|Broken pipe.*(?:gloo|nccl)"
    r"|Rendezvous(?:Timeout|ClosedError)|MPI_ERR_PROC_FAILED|\bRankTimeoutError: |/gloo/(?:transport|rendezvous)/",
)
_ROOT_CAUSE = re.compile(r"Root Cause \(first observed failure\):.{0,400}?exitcode\s*:\s*(-?\d+)", re.DOTALL)
"""torchrun's own exit code is always 1; its report says how the first worker that failed has ended."""
_EXCEPTION = re.compile(
    r"^(?:\[[^\]]*\]:\s*)?([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Iteration)(?::.*)?)$",
    re.MULTILINE,
)
_BY_CAUSE = {
    "SIGINT": Outcome.CANCELLED,
    TIME_LIMIT: Outcome.TIME_LIMIT,
    Interruption.CANCELLED.value: Outcome.CANCELLED,
    Interruption.NODE_FAILURE.value: Outcome.NODE_FAILURE,
}
"""What an attempt has ended by where somebody asked it to stop; anything else is a preemption."""
_CRASH_SIGNALS = {4, 6, 7, 8, 9, 11, 15}
"""SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGTERM: what ends a process below a shell."""

_OF_SRUN = re.compile(r"^srun: error: \S+: tasks? [\d,-]+: (.*?)(?: \(core dumped\))?$", re.MULTILINE)
_BY_SRUNS_WORD = {
    "Illegal instruction": 4,
    "Aborted": 6,
    "Bus error": SIGBUS,
    "Floating point exception": 8,
    "Killed": 9,
    "Segmentation fault": 11,
}
"""srun prints what strsignal says; SIGTERM is left out, because srun itself sends that one."""

_BY_NAME = {error.__name__: error for error in errors.LastgoodError.__subclasses__()}
_BY_CODE = {error.exit_code: error for error in _BY_NAME.values() if 64 <= error.exit_code < 90}


def classify(e: Evidence) -> Ending:
    """Weigh the evidence.

    >>> classify(Evidence(exit_code=0)).outcome, classify(Evidence(signal=9, oom_kills=1)).outcome
    (<Outcome.FINISHED: 'finished'>, <Outcome.OUT_OF_MEMORY: 'out of memory'>)
    """
    e = _seen_through_torchrun(e)
    if e.exit_code == errors.FencedError.exit_code and (ending := _ours(e)) is not None:
        # Why its allocation ends is then the newer attempt's affair.
        return ending
    if e.hang and not (e.is_finished and e.exit_code == 0):
        # It may have moved again while it was asked what it did.
        return Ending(Outcome.HANG, e.hang)
    if e.interruption or e.stop_cause:
        return _stopped(e)
    if e.exit_code == 0:
        # srun may end with 0 although its ranks were cut off.
        return (None if e.is_finished else _node_failure(e)) or _exited_0(e)
    if e.exit_code == errors.EXIT_SAVED_RUN_AGAIN:
        return Ending(Outcome.PREEMPTED, "the program saved and asked to be run again (exit code 75)")
    if e.exit_code == errors.EXIT_INTERRUPTED or e.signal == SIGINT:
        return Ending(Outcome.CANCELLED, "interrupted by SIGINT, which did not come through the launcher")
    if e.oom_kills > 0:
        return Ending(Outcome.OUT_OF_MEMORY, f"the kernel killed {e.oom_kills} process(es) of the job for memory", 137)
    if (death := _first_death(e)) is not None:
        return _out_of_memory(e) or _hardware(e) or death
    if (ending := _ours(e) or _out_of_memory(e) or _hardware(e)) is not None:
        return ending
    if e.signal is not None:
        return Ending(Outcome.KILLED, f"ended by {signal_name(e.signal)}", 128 + e.signal)
    return _exited_nonzero(e)


def classify_raised(exceptions: tuple[str, ...]) -> Ending:
    """How a program ended of which no more is known than what it reported as raised, as "Type: text".

    >>> classify_raised(("RuntimeError: NCCL error: unhandled system error",)).outcome
    <Outcome.COMMUNICATION: 'communication timeout'>
    """
    e = Evidence(exceptions=exceptions, has_library=True)
    return _ours(e) or _out_of_memory(e) or _hardware(e) or _exited_nonzero(e)


def failure_below(e: Evidence, said: str) -> Ending | None:
    """What failed below a program that ended with an error of its own, in the words `said`: memory, a device, a node or the
    connections between its ranks. None if it was none of them.

    >>> failure_below(Evidence(exit_code=1, log_tail="ERROR: uncorrectable ECC error encountered"), "ERROR").outcome
    <Outcome.HARDWARE_ERROR: 'hardware error'>
    """
    if (ending := _out_of_memory(e) or _hardware(e) or _node_failure(e)) is not None:
        return ending
    # Elsewhere in its output such words are mostly those of ranks that an error of one has ended.
    return Ending(Outcome.COMMUNICATION, said, e.exit_code) if _COMMUNICATION.search(said) else None


def _seen_through_torchrun(e: Evidence) -> Evidence:
    """With the end of the worker that failed first in place of torchrun's own exit code."""
    matches = _ROOT_CAUSE.findall(e.log_tail) if e.exit_code == 1 else []
    if not matches:
        return e
    code = int(matches[-1])
    if code < 0:
        return msgspec.structs.replace(e, exit_code=None, signal=-code)
    return msgspec.structs.replace(e, exit_code=code)


def _stopped(e: Evidence) -> Ending:
    cause = e.interruption or e.stop_cause
    outcome = _BY_CAUSE.get(cause, Outcome.PREEMPTED)
    if cause == Interruption.REQUEUED.value and (ending := _node_failure(e)) is not None:
        return ending
    if e.is_finished and e.exit_code == 0:
        return Ending(Outcome.FINISHED, f"all steps are done (a stop was asked for: {cause})")
    if e.was_forced:
        return Ending(outcome, f"{cause}; it did not stop within the grace time and was killed")
    if e.exit_code == errors.EXIT_SAVED_RUN_AGAIN:
        return Ending(outcome, f"{cause}; saved and stopped")
    how = f"exit code {e.exit_code}" if e.signal is None else signal_name(e.signal)
    return Ending(outcome, f"{cause}; ended with {how}")


def _exited_0(e: Evidence) -> Ending:
    if e.is_finished or e.step is None:
        return Ending(Outcome.FINISHED, "all steps are done" if e.is_finished else "exit code 0")
    total = f" of {e.total_steps}" if e.total_steps else ""
    if e.has_library and e.total_steps and e.step < e.total_steps:
        # Who ends before the last step on purpose says so. A code alone says too little: many a wrapper swallows it.
        return Ending(
            Outcome.PROGRAM_ERROR,
            f"exit code 0 after step {e.step}{total}, and run.finish() was not called: the work is not done",
            1,
        )
    return Ending(Outcome.FINISHED, f"exit code 0 after step {e.step}{total}, by the program's own decision")


def _ours(e: Evidence) -> Ending | None:
    """The end that our library gave the program; None if it did not."""
    if not e.has_library:
        return None
    for exception in reversed(e.exceptions):
        name, _, text = exception.partition(": ")
        error = _BY_NAME.get(name)
        if error is not None and e.exit_code in (None, error.exit_code):
            return Ending(_outcome_of(error), text.partition("\n")[0] or error.meaning, error.exit_code)
    error = None if e.exit_code is None else _BY_CODE.get(e.exit_code)
    return None if error is None else Ending(_outcome_of(error), error.meaning, error.exit_code)


def _outcome_of(error: type[errors.LastgoodError]) -> Outcome:
    if error is errors.StorageError or error is errors.UnprotectedError:
        return Outcome.STORAGE_ERROR
    return Outcome.COMMUNICATION if error is errors.RankTimeoutError else Outcome.REFUSED


def _out_of_memory(e: Evidence) -> Ending | None:
    text = _words_of(e)
    match = _OUT_OF_MEMORY.search(text)
    return match and Ending(Outcome.OUT_OF_MEMORY, f"its output says: {_line_at(text, match)}", e.exit_code)


def _node_failure(e: Evidence) -> Ending | None:
    match = _NODE_FAILURE.search(e.log_tail)
    return match and Ending(Outcome.NODE_FAILURE, f"its output says: {_line_at(e.log_tail, match)}")


def _first_death(e: Evidence) -> Ending | None:
    """The end of the rank that srun reports first, if a signal ended it: what others raise then is their reaction."""
    match = _OF_SRUN.search(e.log_tail)
    if match is None or (number := _BY_SRUNS_WORD.get(match[1])) is None:
        return None
    return Ending(Outcome.KILLED, f"its output says: {match[0]}", 128 + number)


def _hardware(e: Evidence) -> Ending | None:
    text = _words_of(e)
    if match := _HARDWARE.search(text):
        return Ending(Outcome.HARDWARE_ERROR, f"its output says: {_line_at(text, match)}", e.exit_code)
    if SIGBUS in (e.signal, (e.exit_code or 0) - 128):
        return Ending(Outcome.HARDWARE_ERROR, f"ended by {signal_name(SIGBUS)}", 128 + SIGBUS)
    return None


def _exited_nonzero(e: Evidence) -> Ending:
    exceptions = [*e.exceptions, *(match[1].strip() for match in _EXCEPTION.finditer(e.log_tail))]
    how = "" if e.exit_code is None else f"exit code {e.exit_code}: "
    # The first exception that is not merely a rank's reaction to another's end is the cause.
    for exception in exceptions:
        if _STORAGE.search(exception):
            return Ending(Outcome.STORAGE_ERROR, f"its output says: {exception[:200]}", e.exit_code)
        if not _COMMUNICATION.search(exception) and "ChildFailedError" not in exception:
            return Ending(Outcome.PROGRAM_ERROR, f"{how}{exception[:200]}", e.exit_code)
    text = _words_of(e)
    if match := _COMMUNICATION.search(text):
        return Ending(Outcome.COMMUNICATION, f"its output says: {_line_at(text, match)}", e.exit_code)
    if match := _STORAGE.search(text):
        return Ending(Outcome.STORAGE_ERROR, f"its output says: {_line_at(text, match)}", e.exit_code)
    code = e.exit_code or 0
    if code > 128 and code - 128 in _CRASH_SIGNALS:
        # A shell between us and the program reports a child's death by signal this way.
        return Ending(Outcome.KILLED, f"exit code {code}: {signal_name(code - 128)} below a shell", code)
    return Ending(Outcome.PROGRAM_ERROR, f"exit code {code}", code)


def _words_of(e: Evidence) -> str:
    return "\n".join([*e.exceptions, e.log_tail])


def _line_at(text: str, match: re.Match[str]) -> str:
    begin = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[begin : end if end >= 0 else None].strip()[:200]
