"""A fault: a failure that can be caused and undone. What it may touch, what it tells, and which there are.

A drill makes a fault from its options, asks what it is missing, lets it prepare before the command is first started, has it
injected when its moment comes, asks whether it took effect, and heals it: when it has lasted long enough, or when the job
has come through, at the latest at the end of the drill, whatever has happened. Healing twice does no harm.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import parse_duration
from lastgood.trial.target import Target, Way
from lastgood.trial.trial import Sight, Trial


class Consequence(Enum):
    """What has to follow a fault for the job to have come through it."""

    RESTART = "restart"
    """It is started again and resumes from the newest checkpoint before the fault, or from a newer one."""
    FALL_BACK = "fall back"
    """The same, but not from the checkpoint that was damaged: from one before it, or it refuses to start."""
    GO_ON = "go on"
    """It may go on without a restart; if there is one, it loses nothing beyond the newest checkpoint."""


class Injected(msgspec.Struct, frozen=True):
    """A fault that was caused."""

    at: float
    """Seconds since 1970: the moment of the harm itself, after all preparation."""
    what: str
    """For a person, on one line: what was done to whom."""
    pids: tuple[int, ...] = ()
    """Processes that it hit."""
    paths: tuple[str, ...] = ()
    """Files that it hit."""
    damaged: tuple[str, ...] = ()
    """Names of checkpoints that must not be resumed from any more, as `Saved.name` has them."""
    evidence: dict[str, Any] = {}
    """What shows that it was done; goes into the drill's journal as it is."""


class Saved(msgspec.Struct, frozen=True):
    """A checkpoint of the command, whole as far as its names and files tell."""

    name: str
    """As our catalogue has it, or the path from where the command works."""
    step: int | None
    """None if nothing tells."""
    at: float
    """When the last of its files was written, in seconds since 1970."""
    files: tuple[Path, ...]


class Hooks(msgspec.Struct, frozen=True):
    """Commands that the site provides; {node} stands for the node's name."""

    node_down: str = ""
    node_up: str = ""


class Call(msgspec.Struct, frozen=True):
    """What is known of a drill before anything is started."""

    target: Target
    way: Way
    hooks: Hooks = Hooks()


class Calm(msgspec.Struct, frozen=True):
    """What the undisturbed run has shown, where there was one: for limits that have to fit the job. Zero: not known."""

    start_s: float = 0.0
    """From the start of the command to its first step."""
    longest_silence_s: float = 0.0
    """The longest time without a new step, after the first."""
    took_s: float = 0.0
    last_step: int = 0


class DrillJournal(Protocol):
    def note(self, kind: str, **data: Any) -> None:
        """Write a line into drill.jsonl: it is on disk when this returns."""


class Scene(Protocol):
    """What a fault may touch."""

    trial: Trial
    calm: Calm
    hooks: Hooks
    journal: DrillJournal
    random: random.Random
    """From the drill's seed: every choice that a fault makes comes from here."""
    directory: Path
    """For what a fault needs besides the job: sockets, mounts. A short path; removed after healing."""

    def look(self) -> Sight:
        """A look at the trial, which the drill's measurements see, too."""

    def wait_until(self, condition: Callable[[Sight], bool], limit_s: float) -> Sight | None:
        """Look until it is so; None if the limit passes. It goes on when the command line has ended."""

    def checkpoints(self) -> list[Saved]:
        """Those of the job, or those that match --checkpoints: committed ones only, newest first."""

    def step_of(self, saved: Saved) -> int | None:
        """The step that it holds, by its name or by when it was written; None if nothing tells."""

    def go_on(self, but: Collection[int] = ()) -> None:
        """In a phase all processes stand still: those but these go on. For a fault that waits for what its victims do."""

    def start_again(self, why: str) -> None:
        """Give the command line again, as a scheduler would after this fault. Whatever is left of the last start is the
        caller's affair."""


class Fault(ABC):
    """One kind of failure. A subclass says what it is, and overrides what it needs."""

    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}
    """Name of each option with what it means and its default."""
    consequence: Consequence = Consequence.RESTART
    lasts_s: float | None = None
    """Healed so long after its injection; None: when the job has come through it, or at the end of the drill."""

    def __init__(self, options: "Options") -> None:  # noqa: B027 - many have nothing to do
        """Take what was given on the command line. Raises UsageError for what does not fit."""

    def missing(self, call: Call) -> str:
        """Why it cannot be caused here; empty if it can. Nothing is started or changed."""
        return ""

    def run_options(self, calm: Calm) -> tuple[str, ...]:
        """Options of `lastgood run` that it needs; one that the user has given himself is left as it is."""
        return ()

    def prepare(self, scene: Scene) -> None:  # noqa: B027 - many have nothing to do
        """Set up what has to be there before the command is first started."""

    @abstractmethod
    def inject(self, scene: Scene) -> Injected:
        """Cause it. Raises NoVictimError if there is nothing that it could be done to."""

    def took_effect(self, scene: Scene, injected: Injected) -> bool | None:
        """True once it shows; False if it does not, or not yet: it is asked again for a while. None: it cannot be told."""
        return True

    def heal(self, scene: Scene) -> None:  # noqa: B027 - many have nothing to do
        """Undo what outlives the injection. Called always, maybe twice, maybe without an injection."""

    def take_down(self, scene: Scene) -> None:  # noqa: B027 - many have nothing to do
        """Remove what `prepare` has set up (a mount, a group). Called once, always, after the last `heal` and when nothing
        of the trial lives any more: nobody uses it then."""


class Answer(Enum):
    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """What was tried cannot tell. Never a pass."""


class Tried(msgspec.Struct, frozen=True):
    """One of many tries of a campaign, judged."""

    what: str
    """What was done, on one line."""
    answer: Answer
    reason: str
    """Why, on one line."""
    resumed_step: int | None = None
    lost_steps: int | None = None
    evidence: dict[str, Any] = {}


class Stage(msgspec.Struct, frozen=True):
    """Where a campaign has its trials."""

    target: Target
    way: Way
    root: Path
    """Its own, below the drill's directory: trials are made here (`trial.place.make_place`)."""
    journal: DrillJournal
    calm: Calm
    random: random.Random


class Campaign(ABC):
    """A fault that is tried many times, each from the same prepared state, and judges each try itself. Nothing that it
    starts outlives `run`."""

    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: "Options") -> None:  # noqa: B027 - as a fault's
        """As a fault's."""

    def missing(self, call: Call) -> str:
        """As a fault's."""
        return ""

    @abstractmethod
    def run(self, stage: Stage) -> list[Tried]:
        """All tries, in order."""


class NoVictimError(Exception):
    """There was nothing that the fault could be done to; says what was missing. The verdict is unknown."""


class Options:
    """The options of one fault, as written on the command line: each is asked for once, then `done` finds the rest."""

    def __init__(self, fault: str, given: Mapping[str, str]) -> None:
        self._fault = fault
        self._given = dict(given)

    def text(self, name: str, default: str) -> str:
        return self._given.pop(name, default)

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise self.wrong(name, value, f"one of {', '.join(choices)}")
        return value

    def count(self, name: str, default: int, *, least: int = 0, most: int = 2**31) -> int:
        value = self.text(name, str(default))
        if not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            raise self.wrong(name, value, f"a whole number from {least}" + (f" to {most}" if most < 2**31 else ""))
        return int(value)

    def duration_s(self, name: str, default: str) -> float:
        """Zero for an empty default."""
        value = self.text(name, default)
        return parse_duration(value) if value else 0.0

    def wrong(self, name: str, value: str, wanted: str) -> UsageError:
        return UsageError(f"--fault {self._fault}: {name}={value} is not {wanted}", safe="nothing was started")

    def done(self) -> None:
        """Raises UsageError for an option that nobody has asked for."""
        for name in self._given:
            known = ", ".join(fault_class(self._fault).options) or "it has none"
            raise UsageError(
                f"--fault {self._fault}: it has no option {name!r}",
                safe="nothing was started",
                remedy=f"its options: {known}; see `lastgood drill --list`",
            )


KNOWN: dict[str, tuple[str, str]] = {
    "kill-rank": ("drill.faults.kills:KillRank", "SIGKILL of one rank"),
    "kill-group": ("drill.faults.kills:KillGroup", "SIGKILL of all processes of the command"),
    "kill-keeper": ("drill.faults.kills:KillKeeper", "SIGKILL of the keeper, which holds the snapshots in memory"),
    "kill-launcher": ("drill.faults.kills:KillLauncher", "SIGKILL of the launcher; it is started again"),
    "terminate": ("drill.faults.stops:Terminate", "SIGTERM, then SIGKILL at the end of the grace; started again"),
    "freeze": ("drill.faults.stops:Freeze", "SIGSTOP of one rank: a hang"),
    "exit": ("drill.faults.exits:Exit", "the command ends with a code of your choice"),
    "out-of-memory": ("drill.memory:OutOfMemory", "the kernel kills it for memory, in a cgroup with a limit"),
    "node": ("drill.faults.nodes:NodeDown", "a node goes down and comes up again, by your own commands"),
    "disk-full": ("drill.filesystem.faults:DiskFull", "no space is left where the checkpoints go"),
    "disk-slow": ("drill.filesystem.faults:DiskSlow", "writing and flushing there takes long"),
    "disk-error": ("drill.filesystem.faults:DiskError", "input/output errors there"),
    "truncate": ("drill.faults.damage:Truncate", "the newest checkpoint loses the end of its largest file"),
    "flip-bit": ("drill.faults.damage:FlipBit", "one bit of the newest checkpoint is flipped"),
    "zero": ("drill.faults.damage:Zero", "a block of the newest checkpoint reads as zeros"),
    "half-delete": ("drill.faults.damage:HalfDelete", "half of the files of the newest checkpoint are gone"),
}
"""Every fault: where its class is (loaded only when it is used), and one line about it."""


CAMPAIGNS: dict[str, tuple[str, str]] = {
    "kill-at-every-operation": (
        "drill.boundaries:KillAtEveryOperation",
        "SIGKILL at each file operation of one save, each from the same state",
    ),
}
"""Faults that are tried many times over, with trials of their own: see Campaign."""


def fault_class(name: str) -> type[Fault] | type[Campaign]:
    """Raises UsageError for a name that is none."""
    if name not in KNOWN and name not in CAMPAIGNS:
        raise UsageError(
            f"there is no fault {name!r}",
            safe="nothing was started",
            remedy=f"one of {', '.join([*KNOWN, *CAMPAIGNS])}",
        )
    module, _, attribute = (KNOWN | CAMPAIGNS)[name][0].partition(":")
    found: type[Fault] | type[Campaign] = getattr(__import__(f"lastgood.{module}", fromlist=[attribute]), attribute)
    return found


def make_fault(name: str, options: Mapping[str, str]) -> Fault | Campaign:
    """Raises UsageError for a name or an option that is none, or a value that does not fit."""
    given = Options(name, options)
    fault = fault_class(name)(given)
    given.done()
    return fault
