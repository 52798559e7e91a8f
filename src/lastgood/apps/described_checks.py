"""Whether a checkpoint is whole, as its description tells."""

import fnmatch
import os
import re
from collections.abc import Mapping

from lastgood.apps.described_values import Values
from lastgood.apps.description_tables import Check, Content
from lastgood.core.errors import UsageError
from lastgood.core.quoting import shown
from lastgood.launch.asking import ask
from lastgood.launch.findings import Match
from lastgood.launch.siblings import incompleteness
from lastgood.launch.soundness import files_below, problem_of_directory, problem_of_file

_END_BYTES = 4096
_MOST_BYTES = 2**26
_WITH_ENDS = (".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".npz", ".zip")
"""Formats of files whose end, or size, tells that all of it is there."""
_SHOWN_CHARACTERS = 160


def quick_problem(check: Check, match: Match, all_of_them: list[Match]) -> str:
    """Why it cannot be used, as far as names, sizes, ends and headers tell. Raises OSError."""
    files = files_below(match.path) if match.is_directory else []
    if match.is_directory and (absent := _absent(check, files)):
        return f"it lacks {absent}"
    size = sum(os.stat(os.path.join(match.path, name)).st_size for name in files) if match.is_directory else match.size
    if size < check.least_bytes:
        return "it is empty" if size == 0 else f"it has {size} bytes, and never less than {check.least_bytes}"
    if check.formats:
        look = problem_of_directory if match.is_directory else problem_of_file
        if problem := look(match.path, is_quick=True):
            return problem
    for content in check.content:
        if content.end and (problem := _end_problem(match.path, content)):
            return problem
    return incompleteness(match, all_of_them) if check.compare and match.is_directory else ""


def tells_its_end(check: Check, match: Match) -> bool:
    """True if `quick_problem` has something to say of one that is still being written. Raises OSError."""
    if any(content.end for content in check.content):
        return True
    suffix = os.path.splitext(match.path)[1].lower()
    if match.is_directory or not check.formats or suffix not in _WITH_ENDS:
        return False
    with open(match.path, "rb") as file:
        # Not a pickle, as torch wrote them before 1.6.
        return suffix == ".safetensors" or file.read(4) == b"PK\x03\x04"


def full_problem(check: Check, match: Match, values: Values, given: Mapping[str, str]) -> str:
    """The same after a look at all of it. Raises OSError, and UsageError where the command that checks does not start."""
    if check.formats:
        look = problem_of_directory if match.is_directory else problem_of_file
        if problem := look(match.path):
            return problem
    for content in check.content:
        if content.pattern and (problem := _pattern_problem(match.path, content)):
            return problem
    if not check.command:
        return ""
    return _commands_word([values.fill(word, given) for word in check.command], check.command_limit_s)


def _absent(check: Check, files: list[str]) -> str:
    for wanted in check.files:
        choices = [wanted] if isinstance(wanted, str) else wanted
        if not any(fnmatch.fnmatchcase(name, choice) for choice in choices for name in files):
            return " or ".join(choices)
    return ""


def _named(path: str, content: Content) -> str:
    return os.path.join(path, content.file) if content.file else path


def _end_problem(path: str, content: Content) -> str:
    try:
        with open(_named(path, content), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _END_BYTES))
            end = file.read().decode("utf-8", "backslashreplace")
    except FileNotFoundError:
        return f"it lacks {content.file}"
    if re.search(content.end, end):
        return ""
    return f"{content.file or 'it'} does not end as it should ({content.end!r})"


def _pattern_problem(path: str, content: Content) -> str:
    try:
        with open(_named(path, content), "rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "backslashreplace")
    except FileNotFoundError:
        return f"it lacks {content.file}"
    return "" if re.search(content.pattern, text) else f"{content.file or 'it'} has no {content.pattern!r}"


def _commands_word(command: list[str], limit_s: float) -> str:
    """Only 0 says that the checkpoint is whole. Too long is no answer, and so is no reason to trust it."""
    try:
        code, text = ask(command, limit_s)
    except OSError as error:
        raise UsageError(
            f"check.command: cannot run {shown(command[0])}: {error.strerror}", safe="nothing was started"
        ) from error
    if code is None:
        return f"{shown(command[0])} gave no answer within {limit_s:g} s"
    if code == 0:
        return ""
    said = text.strip().splitlines()
    return f"{shown(command[0])} ended with {code}" + (f": {said[-1][:_SHOWN_CHARACTERS]}" if said else "")
