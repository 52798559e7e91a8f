"""What a trial runs, and who starts it again when it dies."""

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

import msgspec

from lastgood.core.errors import UsageError

OUR_OWN = "lastgood: "
"""Begins the lines that our launcher and library write between those of the command."""
RUN = "{run}"
"""In a command, replaced by the directory in which the trial works: for programs that are told where to write."""


class Way(Enum):
    """Who starts the command again when it has died."""

    BARE = "bare"
    """Nobody."""
    AGAIN = "started again"
    """Whoever runs the trial gives the same command line again, as a scheduler that requeues does."""
    FROM_NOTHING = "from nothing"
    """The same, and all that it had written is gone: what a job without checkpoints loses."""
    LASTGOOD = "lastgood"
    """`lastgood run`."""


class Target(msgspec.Struct, frozen=True):
    """A command as its user gives it."""

    command: tuple[str, ...]
    directory: Path
    """Where the user stands: each trial works in a copy of it."""
    options: tuple[str, ...] = ()
    """Of `lastgood run`, without --job: such as ("--app", "gromacs")."""
    step_pattern: str = ""
    """A regular expression that finds the step in a line of output, in its group "step" or its first group."""
    checkpoints: str = ""
    """Glob of the files in which the command keeps its own checkpoints, from the directory in which it works."""
    leave_out: tuple[str, ...] = ()
    """Names or globs of what is not copied."""
    environment: dict[str, str] = {}
    resume_command: tuple[str, ...] = ()
    """What is given in place of the command once it has died; empty: the same again."""
    limit_s: float = 3600.0
    """For one trial: after that it is ended, and what it showed is unknown."""

    def command_in(self, work: Path, start: int = 1) -> list[str]:
        """The command line of a start, counted from 1."""
        words = self.resume_command if start > 1 and self.resume_command else self.command
        return [word.replace(RUN, str(work)) for word in words]

    def options_in(self, work: Path) -> list[str]:
        return [word.replace(RUN, str(work)) for word in self.options]

    def checkpoints_in(self, work: Path) -> str:
        """The glob as an absolute one; empty if there is none."""
        return str(work / self.checkpoints.replace(RUN, str(work))) if self.checkpoints else ""


def step_finder(pattern: str) -> "re.Pattern[str] | None":
    """The pattern, compiled. Raises UsageError for one that is no regular expression, or has no group.

    >>> step_in(step_finder(r"step (\\d+)"), "step 12 loss 0.5")
    12
    """
    if not pattern:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"the pattern {pattern!r} is no regular expression: {error}") from None
    if not compiled.groups:
        raise UsageError(
            f"the pattern {pattern!r} has no group", remedy=r"put the number in brackets, such as 'step (\d+)'"
        )
    return compiled


def step_in(finder: "re.Pattern[str] | None", line: str) -> int | None:
    """The step that a line of output tells; None if it tells none, or is our launcher's own ("resumed from step 10")."""
    match = finder.search(line) if finder is not None and not line.startswith(OUR_OWN) else None
    if match is None:
        return None
    text = match["step"] if "step" in match.re.groupindex else match[1]
    return int(text) if text is not None and text.isdigit() else None


def launcher_words(python: str, job: Path, options: Sequence[str]) -> list[str]:
    """The command line of our launcher up to the `--`."""
    return [python, "-m", "lastgood", "run", "--job", str(job), *options]


_OF_SLURM_ITSELF = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS")


def environment_for(target: Target, base: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What a trial sees: nothing of another job of ours in which the drill itself may run, and nothing of a Slurm job around
    it, which a launcher in a trial would otherwise requeue."""
    kept = {name: value for name, value in base.items() if not _is_of_another_job(name)}
    return {**kept, **target.environment, **own}


def _is_of_another_job(name: str) -> bool:
    return name.startswith("LASTGOOD_") or (name.startswith("SLURM_") and name not in _OF_SLURM_ITSELF)
