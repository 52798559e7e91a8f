"""What of a path is different when the work runs again, and what is gone on another node. Pure."""

import re

import msgspec

from lastgood.audit.batch.words import Word

_EACH_START = {
    "RANDOM": "$RANDOM",
    "SRANDOM": "$SRANDOM",
    "$": "the process id ($$)",
    "BASHPID": "the process id ($BASHPID)",
    "PPID": "a process id ($PPID)",
    "EPOCHSECONDS": "the time ($EPOCHSECONDS)",
    "EPOCHREALTIME": "the time ($EPOCHREALTIME)",
    "SLURM_RESTART_COUNT": "the count of restarts ($SLURM_RESTART_COUNT)",
    "SLURM_JOB_START_TIME": "the time of the start ($SLURM_JOB_START_TIME)",
}
_DATE = re.compile(
    r"(?:^|[|;&(`\n])[ \t]*(?:\w+=[^\s|;&(`]*[ \t]+)*(?:[\w./-]*/)?date(?=[\s|;&)`]|$)"
    r"(?![^|;&\n)`]{0,400}\s(?:-[uR]*[dr]|--date|--reference))"
)
"""As a command, without a day or a file that it is told to tell the time of."""
_COMMANDS = (
    (_DATE, "the date"),
    (re.compile(r"(^|[|;&(\s/])mktemp\b"), "mktemp"),
    (re.compile(r"\buuidgen\b|/proc/sys/kernel/random/uuid|\buuid\.uuid"), "a new UUID"),
    (re.compile(r"/dev/urandom|\bopenssl\s+rand\b|\bshuf\b|(^|\W)\$RANDOM"), "a random number"),
    (re.compile(r"^\s*printf\b.*%\(.*\)T"), "the date"),
)
_ESCAPED = re.compile(r"[A-Za-z_({]|\$\(")
_COARSE_DATE = re.compile(r"^\s*date\s+[\"']?\+%[YyG][\"']?\s*$")
_OF_THE_JOB = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID")
_OF_THE_TASK = ("SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID", "SLURM_JOBID")

_LOCAL_FOR_CERTAIN = re.compile(r"/(tmp|var/tmp|dev/shm)(/|\Z)")
_LOCAL_PERHAPS = re.compile(
    r"/(local|local[-_]?scratch|localdisk|lscratch|l_scratch|scratch[-_]?local|scratch/local|mnt/(local|nvme|ssd)\w*|nvme|ssd|jobfs)"
    r"(/|\Z)"
)
_DEFAULT = re.compile(r":?[-=](/tmp|/dev/shm|/var/tmp)")
_LOCAL_VARIABLES = frozenset(
    """
    TMPDIR SLURM_TMPDIR TMP TEMP LOCAL_SCRATCH LOCALSCRATCH LSCRATCH L_SCRATCH SCRATCH_LOCAL LOCAL_TMPDIR LOCALTMP JOBTMP JOBFS
    SLURM_JOB_TMPDIR TMP_LOCAL SNIC_TMP LOCALDIR L_SCRATCH_JOB
    """.split()
)
_MKTEMP_ELSEWHERE = re.compile(r"\s(-p|--tmpdir)[= ]*[^\s]|\s[\"']?[^\s-][^\s]*/")


class Storage(msgspec.Struct, frozen=True):
    """Storage of one node."""

    name: str
    """How the script writes its root: "/tmp", "$TMPDIR"."""
    is_certain: bool
    """False where clusters differ in it."""


def new_at_each_start(word: Word) -> str:
    """What in a word is different each time the script is started, in words; empty if nothing."""
    for part, following in zip(word.parts, [*word.parts[1:], None], strict=False):
        # `$$name` is how templates write `$name`.
        is_escaped = part.text == "$" and following is not None and _ESCAPED.match(following.raw) is not None
        if part.kind == "variable" and part.text in _EACH_START and not is_escaped:
            return _EACH_START[part.text]
        if part.kind == "command" and not _COARSE_DATE.match(part.text):
            found = next((name for pattern, name in _COMMANDS if pattern.search(part.text)), "")
            if found:
                return found
    return ""


def new_in_each_job(word: Word) -> str:
    """The variable of a word that is another one in each job of a chain, as "$NAME"; empty if there is none."""
    return next((f"${name}" for name in word.variables if name in _OF_THE_JOB), "")


def new_in_each_task(word: Word) -> str:
    """The variable of a word that is another one in each task of an array, as "$NAME"; empty if there is none."""
    return next((f"${name}" for name in word.variables if name in _OF_THE_TASK), "")


def local_storage(word: Word) -> Storage | None:
    """The storage of one node that a path leads to; None if it is shared, or if nothing tells."""
    first = word.parts[0] if word.parts else None
    if first is None:
        return None
    if first.kind == "text":
        match = _LOCAL_FOR_CERTAIN.match(first.text)
        if match is not None:
            return Storage(f"/{match[1]}", True)
        match = _LOCAL_PERHAPS.match(first.text)
        return Storage(f"/{match[1]}", False) if match is not None else None
    if first.kind == "variable":
        is_plain = not first.modifier or _DEFAULT.match(first.modifier) is not None
        return Storage(f"${first.text}", False) if first.text in _LOCAL_VARIABLES and is_plain else None
    if re.match(r"\s*mktemp\b", first.text) and not _MKTEMP_ELSEWHERE.search(first.text):
        return Storage("mktemp's directory", True)
    return None


def is_absolute(word: Word) -> bool:
    """True if a path does not depend on the working directory, as far as that can be told."""
    first = word.parts[0] if word.parts else None
    if first is None:
        return False
    return first.kind != "text" or first.text.startswith(("/", "~"))
