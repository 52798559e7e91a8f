"""LG704: the time limit is sixty times shorter than its own comment says."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.limits import in_words, time_limit_s
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_SPOKEN = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_NUMBERS = {word: number for number, word in enumerate(_SPOKEN, 1)}
_HOURS = re.compile(rf"\b(\d+(?:\.\d+)?|{'|'.join(_NUMBERS)})[ -]*(h|hrs?|hours?)\b", re.IGNORECASE)
_DAYS = re.compile(rf"\b(\d+(?:\.\d+)?|{'|'.join(_NUMBERS)})[ -]*(d|days?)\b", re.IGNORECASE)
_SIXTY = 60.0


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked, limit = script.header.get("time"), time_limit_s(script)
    if asked is None or not limit:
        return
    line_end = script.source.bounds_of_line(asked.span.line)[1]
    comment = script.source.text(asked.end, line_end).partition("#")[2]
    said = [*_seconds(_HOURS, comment, 3600.0), *_seconds(_DAYS, comment, 86400.0)]
    if len(said) != 1 or said[0] != limit * _SIXTY:
        return
    reading = {0: ": a bare number is minutes", 1: ": two numbers are minutes and seconds"}.get(
        asked.value.count(":"), ""
    )
    yield Hit(
        span=asked.span,
        message=f"`{asked.value}` is {in_words(limit)}, and the comment says {in_words(said[0])}{reading}; Slurm ends the job "
        f"after {in_words(limit)}",
        remedy=f"write `#SBATCH --time={_clock(said[0])}`",
    )


def _seconds(pattern: re.Pattern[str], text: str, unit_s: float) -> Iterator[float]:
    for match in pattern.finditer(text):
        word = match[1].lower()
        yield (_NUMBERS[word] if word in _NUMBERS else float(word)) * unit_s


def _clock(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


RULE = Rule(
    code="LG704",
    name="time-limit-in-another-unit",
    severity=Severity.MAY_BE_LOST,
    what="A `--time` that is exactly sixty times shorter than the comment beside it says.",
    why="`--time=48` is 48 minutes, and `--time=48:00` is 48 minutes and no seconds. Slurm ends the job there.",
    bad="""\
#!/bin/bash
#SBATCH --time=48:00   # 48 hours
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=48:00:00   # 48 hours
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The comment is wrong, not the limit.",
    source='sbatch(1), --time: "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours" and so on',
    reads=BatchScript,
    check=check,
)
