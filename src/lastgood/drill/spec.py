"""A fault as it is written on the command line: NAME[,option=value...][@WHEN]. Pure.

WHEN is one of

    step=N        as soon as all ranks have done step N
    time=30s      so long after the command was first started
    after=10s     so long after the job has come through the fault before (0s: at once)
    phase=NAME    in the middle of it: save, commit, restore, or a name that the program gives to run.safe_point(...)

Without one the drill chooses: see schedule.py.
"""

from enum import Enum

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import duration, parse_duration


class Kind(Enum):
    STEP = "step"
    TIME = "time"
    AFTER = "after"
    PHASE = "phase"


SAVE, COMMIT, RESTORE = "save", "commit", "restore"
"""Phases that every program has; other names are its own."""


class When(msgspec.Struct, frozen=True):
    kind: Kind
    step: int = 0
    seconds: float = 0.0
    phase: str = ""

    @property
    def text(self) -> str:
        """As it is written on the command line.

        >>> parse_when("time=90s").text, parse_when("step=12").text
        ('time=90s', 'step=12')
        """
        if self.kind is Kind.STEP:
            return f"step={self.step}"
        return f"{self.kind.value}={self.phase or f'{round(self.seconds, 3):.12g}s'}"

    @property
    def words(self) -> str:
        """For a person.

        >>> parse_when("after=10s").words, parse_when("phase=save").words
        ('10 s after the recovery before', 'during save')
        """
        if self.kind is Kind.STEP:
            return f"at step {self.step}"
        if self.kind is Kind.PHASE:
            return f"during {self.phase}"
        if self.kind is Kind.TIME:
            return f"{duration(self.seconds)} after the start"
        return f"{duration(self.seconds)} after the recovery before"


class Spec(msgspec.Struct, frozen=True):
    """One fault that is to be caused."""

    name: str
    options: dict[str, str] = {}
    when: When | None = None
    """None: the drill chooses."""

    @property
    def text(self) -> str:
        """As it is written on the command line.

        >>> parse_spec("kill-rank,which=last@step=120").text
        'kill-rank,which=last@step=120'
        """
        words = [self.name, *(f"{name}={value}" for name, value in self.options.items())]
        return ",".join(words) + (f"@{self.when.text}" if self.when else "")


def parse_spec(text: str) -> Spec:
    """Raises UsageError for what is not of this form; whether there is such a fault is asked elsewhere.

    >>> parse_spec("terminate,grace=5s").options, parse_spec("exit,code=17@phase=save").when.phase
    ({'grace': '5s'}, 'save')
    """
    body, at, moment = text.partition("@")
    name, *words = (word.strip() for word in body.split(","))
    options: dict[str, str] = {}
    for word in words:
        option, equals, value = (part.strip() for part in word.partition("="))
        if not option or not equals or not value:
            raise _wrong(text, f"{word!r} is not option=value")
        if option in options:
            raise _wrong(text, f"{option} is given twice")
        options[option] = value
    if not name:
        raise _wrong(text, "it names no fault")
    if at and not moment.strip():
        raise _wrong(text, "nothing follows the @")
    return Spec(name, options, parse_when(moment.strip(), text) if at else None)


def parse_when(text: str, whole: str = "") -> When:
    """Raises UsageError; `whole` is what the message shows.

    >>> parse_when("step=200").step, parse_when("time=1min").seconds
    (200, 60.0)
    """
    whole = whole or text
    name, _, value = (part.strip() for part in text.partition("="))
    try:
        kind = Kind(name)
    except ValueError:
        raise _wrong(whole, f"{name!r} is no moment") from None
    if not value:
        raise _wrong(whole, f"{name} has no value")
    if kind is Kind.STEP:
        if not (value.isascii() and value.isdigit() and len(value) <= 12):
            raise _wrong(whole, f"{value!r} is no step")
        return When(kind, step=int(value))
    if kind is Kind.PHASE:
        return When(kind, phase=value)
    return When(kind, seconds=parse_duration(value))


def _wrong(text: str, problem: str) -> UsageError:
    return UsageError(
        f"--fault {text}: {problem}",
        safe="nothing was started",
        remedy="write NAME[,option=value...][@step=N|@time=30s|@after=10s|@phase=save|commit|restore], such as "
        "'kill-rank,which=last@step=120'; `lastgood drill --list` names the faults",
    )
