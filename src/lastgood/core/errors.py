"""Every error that a user can meet, with its exit code and the way out.

    LastgoodError                        1   base; never raised itself
    ├── UsageError                       2   the call is wrong: nothing was touched
    ├── DamagedError                    65   content does not pass its checks
    ├── NoSuchJobError                  66   no job, or no checkpoint of that name
    ├── StateMismatchError              67   whole checkpoint, but it does not fit this program
    ├── UnstorableError                 68   the state holds a value that cannot be stored
    ├── SchedulerError                  69   the scheduler refused, or does not answer
    ├── StorageError                    74   the file system said no
    ├── FormatVersionError              76   written by a newer version
    ├── PermissionDeniedError           77   may not read or write there
    ├── ConfigChangedError              78   other hyperparameters than the checkpoint's
    ├── StartRefusedError               80   a checkpoint was expected and none can be used; or other GPUs
    ├── FencedError                     81   a newer attempt of this job exists
    ├── UnprotectedError                85   no checkpoint younger than the promised limit
    ├── JobBusyError                    86   another launcher holds this job
    ├── RankTimeoutError                87   a rank did not answer in time
    ├── TornSnapshotError               88   the state changed while it was copied
    ├── CommandNotFoundError           127   as a shell says it
    └── CommandNotExecutableError      126   as a shell says it

The launcher's verdicts are no errors: 82 to 84 say why it does not try again.

Codes 64 to 78 follow BSD's sysexits.h where it has the meaning; 80 to 89 are ours. 75 (EX_TEMPFAIL)
is no error: it says "progress is saved, run me again", and is the only code that a scheduler should
requeue. Errors of ours stay below 128, because Slurm's accounting shows higher codes less 128; 130 after
Ctrl-C and 128 + n after signal n are what every shell does.
"""

EXIT_FINISHED = 0
EXIT_FINDINGS = 1
EXIT_UNKNOWN = 3
EXIT_SAVED_RUN_AGAIN = 75
EXIT_NO_PROGRESS = 82
EXIT_RESTART_LIMIT = 83
EXIT_OUT_OF_MEMORY_TWICE = 84
EXIT_INTERRUPTED = 130
EXIT_OUTPUT_CUT_OFF = 141
"""As a shell shows a program that SIGPIPE ended."""


class LastgoodError(Exception):
    """A failure that says what happened, where, what is safe now, and what to do.

    `what` names the thing and the place, `safe` what has not been lost, `remedy` the way out.
    """

    exit_code = 1
    meaning = "an error without a code of its own"

    def __init__(self, what: str, *, safe: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        if self.safe:
            lines.append(f"safe now: {self.safe}")
        if self.remedy:
            lines.append(f"what to do: {self.remedy}")
        return "\n  ".join(lines)


class UsageError(LastgoodError):
    exit_code = 2
    meaning = "the command or call is wrong; nothing was touched"


class DamagedError(LastgoodError):
    """Stored content that does not pass its checks: truncated, altered, missing, or not ours."""

    exit_code = 65
    meaning = "content does not pass its checks (`verify` and `app check` answer with it), or a file could not be read (`audit`)"


class NoSuchJobError(LastgoodError):
    exit_code = 66
    meaning = "there is no job in that directory or of that number, or no checkpoint of that name in the job; nothing to `audit` there"


class StateMismatchError(LastgoodError):
    """A whole checkpoint whose names, shapes or types differ from the program's state."""

    exit_code = 67
    meaning = "the checkpoint is whole, but its names, shapes or types do not fit this program"


class UnstorableError(LastgoodError):
    """A value in the state that cannot be stored without running code on load."""

    exit_code = 68
    meaning = "the state holds a value that cannot be stored; its place is named"


class SchedulerError(LastgoodError):
    """The scheduler's commands are missing, refused something, or get no answer."""

    exit_code = 69
    meaning = (
        "the scheduler refused, its commands are missing, or it did not answer within the limit; its words are shown"
    )


class StorageError(LastgoodError):
    exit_code = 74
    meaning = "the file system refused (full, read-only, input/output error)"


class FormatVersionError(LastgoodError):
    exit_code = 76
    meaning = "written by a newer version of lastgood"


class PermissionDeniedError(LastgoodError):
    exit_code = 77
    meaning = "no permission to read or write there"


class ConfigChangedError(LastgoodError):
    exit_code = 78
    meaning = "hyperparameters differ from those of the checkpoint"


class StartRefusedError(LastgoodError):
    """A checkpoint was expected and none can be used: never taken for "nothing there"."""

    exit_code = 80
    meaning = (
        "a checkpoint was expected and none can be used, and it is not started from zero; or, with `--same-gpu`, the job "
        "began on other GPUs"
    )


class FencedError(LastgoodError):
    exit_code = 81
    meaning = "a newer attempt of this job exists; this one stopped without touching it"


class UnprotectedError(LastgoodError):
    """Saves have failed for so long that carrying on would risk more than was allowed."""

    exit_code = 85
    meaning = "saves failed until no checkpoint was younger than the limit; stopped"


class JobBusyError(LastgoodError):
    exit_code = 86
    meaning = "another launcher holds this job"


class RankTimeoutError(LastgoodError):
    exit_code = 87
    meaning = "a rank did not answer within the limit; it is named"


class TornSnapshotError(LastgoodError):
    """A snapshot that is of no single moment, and was thrown away."""

    exit_code = 88
    meaning = "the state changed while it was copied beside the loop; that snapshot was thrown away"


class CommandNotExecutableError(LastgoodError):
    exit_code = 126
    meaning = "the command exists but cannot be executed"


class CommandNotFoundError(LastgoodError):
    exit_code = 127
    meaning = "the command does not exist"


def exit_code_table() -> list[tuple[int, str, str]]:
    """Every exit code of `lastgood`, as (code, name, meaning), in order; the docs are made from it.

    >>> [code for code, name, _ in exit_code_table() if name == "saved, run again"]
    [75]
    """
    rows = [
        (EXIT_FINISHED, "finished", "the job is finished (or the question is answered with yes)"),
        (
            EXIT_FINDINGS,
            "findings",
            (
                "`audit` found something that is at least as bad as `--fail-on` says; of `status`: given up; "
                "`drill` and `prove`: the job did not come through, or its answer is not the same"
            ),
        ),
        (
            EXIT_UNKNOWN,
            "unknown",
            "`drill` and `prove`: what was tried cannot tell, such as a fault that did not take effect",
        ),
        (
            EXIT_SAVED_RUN_AGAIN,
            "saved, run again",
            "progress is saved; the scheduler should run the job again",
        ),
        (EXIT_NO_PROGRESS, "no progress", "attempts in a row ended without a newer checkpoint; not tried again"),
        (EXIT_RESTART_LIMIT, "restart limit", "restarted as often as allowed; not tried again"),
        (EXIT_OUT_OF_MEMORY_TWICE, "out of memory twice", "out of memory twice at the same place; not tried again"),
        (EXIT_INTERRUPTED, "interrupted", "stopped by Ctrl-C; progress is saved where there was time"),
        (
            EXIT_OUTPUT_CUT_OFF,
            "output cut off",
            "the answer is no failure, but its reader left before all of it was printed",
        ),
    ]
    rows += [(c.exit_code, c.__name__, c.meaning) for c in LastgoodError.__subclasses__()]
    return sorted(rows)
