"""What a scheduler and an application must answer to the launcher."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from lastgood.core.outcome import Ending, Evidence
from lastgood.store.attempts import Journal


class Left(msgspec.Struct, frozen=True):
    """How the launcher leaves."""

    exit_code: int
    message: str = ""
    """Who starts the job again, or what was done so that nobody does; empty if there is nothing to say."""


class Scheduler(Protocol):
    """What stands above the launcher and gave it its time."""

    name: str

    def deadline(self) -> float | None:
        """End of the allocation in seconds since 1970; None if there is none or it is not known."""

    def restart_counts(self) -> dict[str, int]:
        """How often others say that they have started this job again, by variable name."""

    def window_s(self) -> float | None:
        """From a stop signal of the scheduler to the end of everything, less what the launcher needs itself; None if it
        gives as long as it takes."""

    def allocation(self) -> dict[str, Any]:
        """What the journal keeps of where an attempt runs, see core.events; empty where there is nothing to keep."""

    def introduction(self, write_s: float | None) -> list[str]:
        """What a person should know before the first attempt: who starts the job again. `write_s` is how long a save took
        lately; None if none is known."""

    def before_attempt(self) -> None:
        """An attempt begins: make sure that the job is started again whatever ends it."""

    def interruption(self) -> str:
        """Why the scheduler ends this allocation now, one of core.handback's; empty if it does not, or if that is not
        known."""

    def hand_back(self, *, is_unasked: bool) -> Left:
        """Work is left: have the job started again, by exactly one means. `is_unasked`: no signal made it stop (its own
        clock did, or the program itself), so nobody can have cancelled it."""

    def may_avoid(self) -> int:
        """How many nodes it may be asked to keep the job away from; 0 where that cannot be asked for."""

    def avoid(self, nodes: Sequence[str]) -> Left | None:
        """Have the job started again, on other nodes than these; None if that cannot be had."""

    def end(self, exit_code: int) -> Left:
        """Nothing is to start the job again: it is finished, has given up, or was cancelled."""

    def was_cancelled(self, job_id: str) -> bool:
        """True if a person cancelled that earlier allocation; False if not, or if that is not known."""


class LastGood(msgspec.Struct, frozen=True):
    """The newest checkpoint that an application would resume from."""

    name: str
    step: int
    at: float
    """When it was committed, in seconds since 1970."""
    key: tuple[float, ...]
    """Grows with each newer checkpoint of the same kind."""
    size_bytes: int | None = None
    kind: str = ""
    """Where checkpoints have names of several kinds: which one."""
    tells_its_end: bool = True
    """As `Found`."""

    def is_newer_than(self, other: "LastGood | None") -> bool:
        """Kinds cannot be compared with each other by their keys, only by when they were written."""
        if other is None:
            return True
        return self.key > other.key if self.kind == other.kind else self.at > other.at


class Prepared(msgspec.Struct, frozen=True):
    """How an attempt is to be started."""

    arguments: list[str] = []
    """To be added to the command."""
    environment: dict[str, str] = {}
    message: str = ""
    """What will happen, for a person."""
    command: list[str] | None = None
    """To be run in place of the command; None: it is run as the user gave it."""
    done: str = ""
    """Why nothing is left to do: then nothing is started."""


class Application(Protocol):
    """One kind of program: where its checkpoints are and how it is told to resume."""

    def last_good(self) -> LastGood | None:
        """The newest checkpoint, None if there is none. Raises OSError if that cannot be found out."""

    def prepare(self, attempt: int, *, is_fresh: bool, journal: Journal) -> Prepared:
        """Decide how attempt number `attempt` starts. Raises StartRefusedError."""

    def note_progress(self, journal: Journal) -> None:
        """Called now and then while the command runs, and once after it: write down what it has saved."""

    def explain_no_progress(self) -> str:
        """What may be the reason that no newer checkpoint is found; empty if nothing points to one."""

    def can_see_checkpoints(self, attempt: int) -> bool:
        """False if it is not known whether the command saves anything, after `attempt` has ended."""

    def ask_to_stop(self, number: int) -> "StopRequest":
        """How to make the command save and stop, where the launcher was asked to with signal `number`; for SIGUSR2, save
        and carry on."""

    def told(self, output: str) -> "Told | None":
        """How far the command has come by its own words, of which `output` are the last that it printed; None if it sends
        heartbeats, or says nothing."""

    def judge(self, evidence: Evidence) -> Ending | None:
        """How an attempt ended, where the application knows better than its exit code tells; None if it does not."""


class StopRequest(msgspec.Struct, frozen=True):
    """How a command is asked to save and stop."""

    signal: int | None
    """To be passed on to its processes; None where it has been asked in another way."""
    only_to: tuple[str, ...] = ()
    """Names of the processes that get the signal; empty: all of them."""
    is_exact: bool = False
    """To stop it takes this very signal."""
    is_ended_at_save: bool = False
    """It cannot be asked, and saves when it comes to it: it is ended at its next checkpoint, or when the grace time is over."""
    refusal: str = ""
    """Why it cannot save and carry on when it is asked to. Then nothing is sent."""


class Told(msgspec.Struct, frozen=True):
    """How far a command has come, by what it prints and what it has saved."""

    step: int
    total_steps: int | None
    last_good_step: int | None
    last_good_at: float | None
    """When that was written, in seconds since 1970."""


class Found(msgspec.Struct, frozen=True):
    """A checkpoint of an application, looked at."""

    path: str
    """As the application is told of it."""
    step: int
    at: float
    """When it was written, in seconds since 1970."""
    size_bytes: int
    problem: str = ""
    """Why it cannot be used; empty if it is whole."""
    detail: str = ""
    """What people call this step, such as "t = 18.9 ps"."""
    parts: tuple[str, ...] = ()
    """All of its files and directories, where that is more than `path`."""
    may_be_cut_off: bool = False
    """It is written in place, and what is wrong may be that its writing was never ended: where nothing was saved before, it
    is no sign of a checkpoint."""
    tells_its_end: bool = True
    """A quick look finds something wrong with it as long as it is being written."""


class Work(msgspec.Struct, frozen=True):
    """How far an application has come, by what it has written."""

    done: int
    total: int | None
    """None: it goes on until it is told to stop."""
    is_done: bool
    """Nothing is left to do, the last results are written, too."""


class Conditions(msgspec.Struct, frozen=True):
    """What an application has to be told of for one attempt."""

    interval_s: float
    """Work between two of its checkpoints."""
    left_s: float | None = None
    """Until it is asked to stop because of a time limit; None if there is none."""
    is_interval_given: bool = False
    """The interval is the user's wish, not our estimate."""


class Order(msgspec.Struct, frozen=True):
    """What an attempt runs."""

    command: list[str]
    environment: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    """What a person should know of it."""


class Adapter(Protocol):
    """What has to be known of an application that writes checkpoints of its own. Everything raises OSError for files that
    cannot be read: that says nothing of what is in them."""

    name: str

    def lock_path(self) -> str:
        """A file of ours where the application works: two of them at one place would spoil each other's files."""

    def candidates(self) -> list[Found]:
        """The checkpoints that are there, the newest first, with what is wrong as far as a quick look tells: this is
        also asked while the application runs."""

    def problem_of(self, found: Found) -> str:
        """Why a checkpoint cannot be used, after a look at all of it; empty if nothing speaks against it."""

    def order(self, found: Found | None, conditions: Conditions) -> Order:
        """The command for a start from a checkpoint, or from zero. What an earlier stop has left behind, and would stop it
        again, is taken away. Raises UsageError for a command line that cannot be continued."""

    def put_aside(self, founds: Sequence[Found], why: str) -> list[str]:
        """Rename checkpoints, so that the application does not take them; their new paths."""

    def ask_to_stop(self, number: int) -> StopRequest:
        """As `Application.ask_to_stop`."""

    def reached(self, output: str, since: float) -> int | None:
        """The last step that it tells of: in the end of its output, or in a log of its own, which says nothing if it is
        older than `since` (seconds since 1970), when this attempt began. None if it tells none."""

    def work(self) -> Work | None:
        """How far it has come; None if nothing tells."""

    def explain_end(self, evidence: Evidence) -> Ending | None:
        """What its own words say of its end; None if they say nothing."""


class Result(msgspec.Struct, frozen=True):
    """Something that an application leaves as its answer, and how a proof compares it with another run's."""

    name: str
    """The same in every run: "energies", "processor0/U"."""
    paths: tuple[str, ...]
    """From the directory in which the run was started; several where a resumed run goes on in files of its own."""
    kind: str = ""
    """How it is compared, as `lastgood prove` names kinds of files; empty: by what is in it."""
    leave_out: tuple[str, ...] = ()
    """Regular expressions of lines that differ between any two runs, such as dates."""
    shown_by: tuple[str, ...] = ()
    """A command that prints the file `{path}` as text, for files that are not text; asked only where bytes differ."""
