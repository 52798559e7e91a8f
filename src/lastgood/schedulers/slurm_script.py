"""The batch script of a job: short, readable, and right about quotes. Pure."""

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.layout import Env

_PLAIN = re.compile(r"[\w@%+=:,./^~\[\]*-]+\Z", re.ASCII)
_NAME_AND_VALUE = re.compile(r"(--[\w-]+=)(.*)\Z", re.DOTALL)

_PLANNED = "# As planned: a save every "

MAX_SIGNAL_S = 65535
"""The longest notice that sbatch takes."""


class BatchScript(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into a script. Paths are absolute."""

    name: str
    job: str
    """As --job has it: its %a and %A stay."""
    output: str
    """A pattern of sbatch, see `output_pattern`; empty if the user's own options name the output."""
    command: Sequence[str]
    python: str
    """The interpreter that lastgood is installed for."""
    run_options: Sequence[str] = ()
    """Of `lastgood run`, without --job."""
    sbatch_options: Sequence[str] = ()
    """The user's own."""
    notice_s: float = 30.0
    """How long before the time limit Slurm signals the script."""
    may_requeue: bool = True
    chain: str = ""
    """Ties the segments of one submission together; empty for a job of one segment."""
    segments: int = 1
    exports: Mapping[str, str] = {}
    """Variables for the job, beside those that the submission's environment brings."""
    planned_interval_s: float | None = None
    """How often to save by the plan, for who compares with it later; None without a plan."""


def batch_script(script: BatchScript) -> str:
    """The text of the script. Raises UsageError for what cannot be written on a line of it."""
    options = [
        "# Runs until the job is finished: whatever ends this script, Slurm or the next segment starts it again.",
        _directive(f"--job-name={script.name}"),
        _directive("--requeue" if script.may_requeue else "--no-requeue"),
        _directive("--open-mode=append"),
    ]
    if script.output:
        options.append(_directive(f"--output={script.output}"))
    notice_s = min(max(round(script.notice_s), 1), MAX_SIGNAL_S)
    options += [
        "# Notice of the time limit, beside what lastgood knows of it: an administrator may move it.",
        _directive(f"--signal=B:USR1@{notice_s}"),
    ]
    if script.sbatch_options:
        options.append("# As given; they come last, so they win.")
        options += _directives(script.sbatch_options)
    lines = ["#!/bin/sh", *options, ""]
    if script.chain:
        lines += [
            f"# One of {script.segments} segments: submit each with --dependency=afterany:JOBID of the one before.",
            f"export {Env.CHAIN}={script.chain}",
            "",
        ]
    if script.planned_interval_s is not None:
        lines += [f"{_PLANNED}{script.planned_interval_s:.1f} s.", *([] if script.exports else [""])]
    elif script.exports:
        lines.append("# As planned.")
    if script.exports:
        lines += [f"export {name}={shlex.quote(value)}" for name, value in script.exports.items()]
        lines.append("")
    lines.append("# exec: Slurm's signals reach lastgood, and its exit code reaches Slurm.")
    if any("$" in word or "`" in word for word in (*script.run_options, *script.command)):
        lines.append("# shellcheck disable=SC2016  # what is in single quotes is meant for the command")
    lines += _last_line(script)
    return "\n".join(lines) + "\n"


def planned_interval_s(text: str) -> float | None:
    """How often to save by the plan that a script was written with; None if it says nothing of one.

    >>> planned_interval_s("#!/bin/sh\\n# As planned: a save every 506.2 s.\\nexec true\\n")
    506.2
    """
    for line in text.splitlines():
        if line.startswith(_PLANNED) and (
            match := re.fullmatch(r"([0-9]{1,9}\.[0-9]) s\.", line.removeprefix(_PLANNED))
        ):
            return float(match[1])
    return None


def output_pattern(directory: str, *, is_array: bool) -> str:
    """sbatch's pattern for the output of all runs of a job, in a directory whose name is taken as it is.

    >>> output_pattern("/runs/100%", is_array=False), output_pattern("/runs", is_array=True)
    ('/runs/100%%/slurm-%j.out', '/runs/slurm-%A_%a.out')
    """
    if "\\" in directory:
        raise UsageError(
            f"{directory}: sbatch cannot write its output to a path with a backslash", remedy="give --output FILE"
        )
    return f"{directory.replace('%', '%%')}/slurm-{'%A_%a' if is_array else '%j'}.out"


def quoted(word: str) -> str:
    """A word as sbatch reads it on a line of a script; it is no shell.

    >>> print(quoted("--gres=gpu:2"), quoted('--comment=a "b" #c'))
    --gres=gpu:2 --comment="a \\"b\\" #c"
    """
    if any(c in word for c in "\n\r\0"):
        raise UsageError(f"{word!r}: a line of a batch script cannot hold a line break")
    if _PLAIN.match(word):
        return word
    match = _NAME_AND_VALUE.match(word)
    name, value = (match[1], match[2]) if match else ("", word)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}"{escaped}"'


def _directive(*words: str) -> str:
    return "#SBATCH " + " ".join(quoted(word) for word in words)


def _directives(words: Sequence[str]) -> list[str]:
    """One line for each option. What does not begin like one is the value of the option before."""
    groups: list[list[str]] = []
    for word in words:
        if groups and not word.startswith("-"):
            groups[-1].append(word)
        else:
            groups.append([word])
    return [_directive(*group) for group in groups]


def _last_line(script: BatchScript) -> list[str]:
    if "\n" in script.job:
        raise UsageError(f"{script.job!r}: the path of a job in a batch script cannot hold a line break")
    parts = [
        f"exec {shlex.quote(script.python)} -m lastgood run --job {shlex.quote(script.job)}",
        shlex.join(script.run_options),
        f"-- {shlex.join(script.command)}",
    ]
    return " \\\n    ".join(part for part in parts if part).split("\n")
