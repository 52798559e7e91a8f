"""What the user's own options for sbatch say, as far as we must know. Pure."""

import re
from collections.abc import Mapping, Sequence

from lastgood.schedulers.slurm_text import parse_slurm_duration

_THROTTLE = re.compile(r"%(\d+)\Z", re.ASCII)


class SbatchOptions:
    """Words for sbatch, and the variables of its own that stand for options. The last word wins, then the variable."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._words = words
        self._environment = environment

    def value(self, name: str, letter: str = "", variable: str = "") -> str:
        """The value of an option, as `--name=V`, `--name V`, `-lV` or `-l V`; empty if it is not given.

        >>> SbatchOptions(["-t", "1:00", "--time=2:00", "-p", "-x"], {}).value("time", "t")
        '2:00'
        """
        found = self._environment.get(variable, "") if variable else ""
        follows = False
        for word in self._words:
            if follows:
                found, follows = word, False
            elif word == f"--{name}" or (letter and word == f"-{letter}"):
                follows = True
            elif word.startswith(f"--{name}="):
                found = word.partition("=")[2]
            elif letter and word.startswith(f"-{letter}") and not word.startswith("--"):
                found = word[2:].removeprefix("=")
        return found

    def has(self, name: str, letter: str = "") -> bool:
        """True if an option is given, with a value or without."""
        return any(
            word == f"--{name}"
            or word.startswith(f"--{name}=")
            or (letter != "" and word.startswith(f"-{letter}") and not word.startswith("--"))
            for word in self._words
        )

    @property
    def time_limit_s(self) -> float | None:
        text = self.value("time", "t", "SBATCH_TIMELIMIT")
        return parse_slurm_duration(text) if text else None

    @property
    def partitions(self) -> list[str]:
        return [name for name in self.value("partition", "p", "SBATCH_PARTITION").split(",") if name]

    @property
    def array(self) -> str:
        return self.value("array", "a", "SBATCH_ARRAY_INX")

    @property
    def runs_one_task_at_a_time(self) -> bool:
        match = _THROTTLE.search(self.array)
        return match is not None and int(match[1]) == 1
