"""The tables of a description, as types."""

from typing import Literal

import msgspec

from lastgood.core.outcome import Outcome

OUTCOMES = tuple(
    outcome.value
    for outcome in Outcome
    if outcome not in (Outcome.FINISHED, Outcome.REFUSED, Outcome.LAUNCHER_LOST, Outcome.HANG)
)
"""What a line of the output may mean. That the work is done is never told by its output alone."""
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")
OF_LASTGOOD = ("checkpoint", "step", "total", "remaining", "interval_s")
"""Words that need no entry under [values]."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Source(Table, frozen=True):
    """Where a value comes from: an option of the command, a file, or the text itself."""

    option: list[str] = []
    """Names of an option, whose value it is."""
    file: str = ""
    pattern: str = ""
    """Its first group in the last place where it matches; without a group, all that matches."""
    json: str = ""
    """A key of the file, those of inner objects behind dots."""
    text: str | None = None
    """The value itself."""
    default: str | None = None


class Checkpoints(Table, frozen=True):
    glob: list[str]
    order: Literal["number", "step", "time"] = "number"
    step: Source | None = None
    """Without it, the last number in the name."""
    total: Source | None = None
    """The step at which the work is done."""


class Content(Table, frozen=True):
    file: str = ""
    """Relative to the checkpoint; empty: the checkpoint itself."""
    pattern: str = ""
    end: str = ""
    """What the last 4 KiB must match."""


class Check(Table, frozen=True):
    files: list[str | list[str]] = []
    """Patterns of which each must match a file in the checkpoint; in an inner list one of them."""
    formats: bool = True
    compare: bool = True
    least_bytes: int = 1
    content: list[Content] = []
    command: list[str] = []
    command_limit_s: float = 60.0


class Replace(Table, frozen=True):
    pattern: str
    text: str
    insert_after: str = ""
    """Where the pattern is nowhere: behind this one the text is put on a line of its own."""
    only_if: str = ""
    """Only where the file matches this one."""


class Edit(Table, frozen=True):
    """An input that has to say other things at a resume: a changed copy is passed in its place."""

    file: str
    replace: list[Replace]


class Start(Table, frozen=True):
    always: list[str] = []
    fresh: list[str] = []
    resume: list[str] = []
    remove: list[str] = []
    environment: dict[str, str] = {}
    edit: list[Edit] = []


class Stop(Table, frozen=True):
    signal: str = ""
    file: str = ""
    wait: bool = False
    """It saves when it comes to it: it is ended then."""
    processes: list[str] = []


class Progress(Table, frozen=True):
    output: str  # whose first group, where it matches last, is the step that the program has come to


class Finished(Table, frozen=True):
    """One test. All that it names must hold."""

    step: Literal["total"] | None = None
    """The step of the newest checkpoint has reached checkpoints.total."""
    exists: str = ""
    file: str = ""
    pattern: str = ""
    output: str = ""
    """What the output says, and the exit code is 0."""


class Refuse(Table, frozen=True):
    """An input that cannot be continued: a file, what it says, and why that is so."""

    file: str
    pattern: str
    reason: str


class Line(Table, frozen=True):
    pattern: str
    outcome: str
    reason: str = ""
    """Empty: the line itself."""


class Description(Table, frozen=True):
    format: int
    name: str
    checkpoints: Checkpoints
    finished: list[Finished]
    summary: str = ""
    programs: list[str] = []
    """One of these must be a word of the command."""
    values: dict[str, Source] = {}
    check: Check = Check()
    start: Start = Start()
    stop: Stop = Stop(signal="TERM")
    save: Stop | None = None
    progress: Progress | None = None
    log: list[Line] = []
    refuse: list[Refuse] = []
