"""The answers of applications held against each other: their own files, as text where they are not."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from lastgood.core.errors import LastgoodError, StorageError
from lastgood.core.signals import SIGKILL
from lastgood.launch.ports import Result
from lastgood.prove.difference import Comparison, join, not_comparable
from lastgood.prove.files import Rule, compare_files
from lastgood.prove.frames import FRAMINGS, Frames, hold_frames
from lastgood.prove.raw_bytes import Raw, are_same_bytes
from lastgood.prove.series import compare_series
from lastgood.prove.tally import Tally
from lastgood.prove.text_lines import Lines, hold_lines
from lastgood.prove.thermo_log import read_thermo
from lastgood.prove.values import only_one
from lastgood.store.durable import explained

LIMIT_S = 1800.0
"""For printing one file."""
LOG = "lammps log"


def compare_results(
    left: Path,
    left_results: Sequence[Result],
    right: Path,
    right_results: Sequence[Result],
    rule: Rule = Rule(),  # noqa: B008
) -> list[tuple[str, Comparison]]:
    """Each result by name with its answer; `left` is where the undisturbed run worked, `left_results` what it left there."""
    one, other = ({result.name: result for result in results} for results in (left_results, right_results))
    answers = []
    for name in dict.fromkeys([*one, *other]):
        if name not in one or name not in other:
            answers.append((name, only_one(name, is_left=name in one)))
            continue
        try:
            found = _compare(left, one[name], right, other[name], rule)
        except LastgoodError as error:
            found = not_comparable(f"{name}: {error.what}")
        answers.append((name, found))
    return answers


def in_all(answers: Sequence[tuple[str, Comparison]]) -> Comparison:
    """One answer for all results. None is no proof."""
    return join([answer for _, answer in answers], "the application has left no result that is known")


def _compare(left: Path, one: Result, right: Path, other: Result, rule: Rule) -> Comparison:
    paths = [[root / path for path in result.paths] for root, result in ((left, one), (right, other))]
    leave_out = tuple(dict.fromkeys([*rule.leave_out, *one.leave_out, *other.leave_out]))
    with explained("compare", paths[0][0]):
        if one.kind == LOG:
            a, b = (read_thermo(side) for side in paths)
            found = compare_series(a, b, rule.tolerance, where=one.name)
            return join(
                [
                    found.comparison,
                    *(
                        only_one(f"steps {first} to {last}", is_left=True, where=one.name)
                        for first, last in found.only_left
                    ),
                ]
            )
        if not one.shown_by:
            of_kind = msgspec.structs.replace(rule, kind=one.kind, leave_out=leave_out)
            return _without_hints(compare_files(paths[0][0], paths[1][0], of_kind, where=one.name))
        if len(paths[0]) == len(paths[1]) == 1 and are_same_bytes(Raw(paths[0][0]), Raw(paths[1][0])):
            return Comparison(kind="identical", compared=paths[0][0].stat().st_size)
    tally = Tally(rule.tolerance)
    with tempfile.TemporaryDirectory(prefix="lastgood-shown-") as room:
        texts = [
            [_printed(one.shown_by, path, Path(room) / f"{side}-{number}") for number, path in enumerate(of_side)]
            for side, of_side in enumerate(paths)
        ]
        framing = FRAMINGS.get(one.kind)
        if framing is not None:
            sides = [Frames(tuple(map(Raw, side)), framing, leave_out) for side in texts]
            hold_frames(tally, *sides, where=one.name)
        else:
            lines = [Lines(Raw(side[0]), "text", leave_out, is_labelled=True) for side in texts]
            hold_lines(tally, *lines, where=one.name)
    return _without_hints(tally.comparison(f"{one.name} holds nothing"))


def _without_hints(answer: Comparison) -> Comparison:
    """What is left out of these files is left out in every proof: that need not be said."""
    return msgspec.structs.replace(answer, notes=tuple(note for note in answer.notes if "were left out" not in note))


def _printed(command: Sequence[str], path: Path, into: Path) -> Path:
    """What the application's own tool prints of a file. Raises StorageError where it does not."""
    words = [os.path.abspath(path) if word == "{path}" else word for word in command]
    program = shutil.which(words[0])
    if program is None:
        raise StorageError(f"{words[0]} is not in PATH, which prints {path.name} as text")
    with into.open("wb") as file, _ended([program, *words[1:]], path.parent, file.fileno()) as process:
        try:
            _, complaint = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise StorageError(f"{' '.join(words[:3])} took longer than {LIMIT_S:.0f} s to print {path}") from None
    if process.returncode:
        said = [line for line in complaint.decode(errors="replace").splitlines() if any(map(str.isalpha, line))]
        raise StorageError(
            f"{path.name} cannot be read by {' '.join(words[:3])} (exit {process.returncode}): {' '.join(said)[:300]}"
        )
    return into


@contextmanager
def _ended(command: list[str], directory: Path, output: int) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        command, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            # Also after Ctrl-C, which does not reach a session of its own.
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, SIGKILL)
