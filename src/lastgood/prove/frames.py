"""Trajectories as text, frame by frame: of a step that was written twice, the last counts.

LAMMPS' own dump format, and what `gmx dump` prints. A resumed run may append to the file, repeat frames, or go on in files
of its own, which are then read one after the other.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from lastgood.prove.difference import Difference
from lastgood.prove.raw_bytes import Raw
from lastgood.prove.tally import Tally
from lastgood.prove.text_lines import hold_labelled, pattern_of
from lastgood.prove.values import hold

_HEAD_BYTES = 1000


class Framing(msgspec.Struct, frozen=True):
    """How frames are told apart, by regular expressions."""

    begin: str
    """Finds the first line of a frame."""
    step: str
    """Finds the step in the frame's beginning, in its first group."""
    is_named_by_file: bool = False
    """The first line holds the name of the file: it is not compared."""


LAMMPS = Framing(r"^ITEM: TIMESTEP", r"TIMESTEP\s+(\d+)")
GROMACS_TRAJECTORY = Framing(r" frame \d+:$", r"step=\s*(\d+)", is_named_by_file=True)
GROMACS_ENERGIES = Framing(r"^\s+time:\s.*\bstep:", r"step:\s*(\d+)")
FRAMINGS: Mapping[str, Framing] = {
    "frames": LAMMPS,
    "gromacs trajectory": GROMACS_TRAJECTORY,
    "gromacs energies": GROMACS_ENERGIES,
}


class Frames(msgspec.Struct, frozen=True):
    """One trajectory in one file or several, the newest last."""

    raws: tuple[Raw, ...]
    framing: Framing = LAMMPS
    leave_out: tuple[str, ...] = ()
    """Regular expressions of lines that are not compared."""


class _Frame(msgspec.Struct, frozen=True):
    raw: Raw
    begin: int
    size: int


def hold_frames(tally: Tally, left: Frames, right: Frames, *, where: str = "") -> None:
    """Hold the frames of the steps that both have against each other. Atoms of LAMMPS are matched by their number, where the
    file has it: their order may change when they move from one processor to another."""
    one, twice = _index(left)
    other, again = _index(right)
    if not one and not other:
        tally.note(f"{where or left.raws[0].path.name} has no frames")
    for steps, run in ((twice, "undisturbed"), (again, "other")):
        if steps:
            tally.note(
                f"{where or left.raws[0].path.name}: the {run} run wrote {steps:,} frames twice; the last counts"
            )
    leave_out = pattern_of([*left.leave_out, *right.leave_out])
    more = [step for step in sorted(other.keys() - one.keys()) if one and step < max(one)]
    if more:
        # Written as it was stopped: more is nothing wrong.
        tally.note(
            f"{where or left.raws[0].path.name}: the other run has {len(more):,} frames more, first at step {more[0]:,}"
        )
    for step in sorted((one.keys() | other.keys()) - set(more)):
        if step not in one or step not in other:
            reason = "only in the undisturbed run" if step in one else "only in the other run"
            difference = Difference(what="frame", left="", right="", where=where, step=step, reason=reason)
            tally.add(difference, is_allowed=False)
            continue
        texts = [
            _read(frame, is_without_first_line=left.framing.is_named_by_file) for frame in (one[step], other[step])
        ]
        if texts[0] == texts[1]:
            tally.add_equal(texts[0].count(b"\n"))
        elif left.framing == LAMMPS:
            heads, rows = zip(*(_parts(text) for text in texts), strict=True)
            hold(tally, "frame", *heads, where=where, step=step)
            hold(tally, "", *rows, where=where, step=step)
        else:
            a, b = (_kept(text.decode("latin-1"), leave_out) for text in texts)
            _hold_lines(tally, a, b, where, step)


def _read(frame: _Frame, *, is_without_first_line: bool) -> bytes:
    with frame.raw.open() as file:
        file.seek(frame.begin)
        text = file.read(frame.size)
    return text.partition(b"\n")[2] if is_without_first_line else text


def _index(frames: Frames) -> tuple[dict[int, _Frame], int]:
    """Where the last frame of each step is, and how many there are beside these."""
    found: dict[int, _Frame] = {}
    count = 0
    for frame, step in _all(frames):
        found[step] = frame
        count += 1
    return found, count - len(found)


def _all(frames: Frames) -> Iterator[tuple[_Frame, int]]:
    begins = re.compile(frames.framing.begin.encode())
    finder = re.compile(frames.framing.step.encode())
    for raw in frames.raws:
        begin, at, head = -1, 0, b""
        with raw.open() as file:
            for line in file:
                if begins.search(line):
                    if begin >= 0:
                        yield _Frame(raw, begin, at - begin), _step(finder, head)
                    begin, head = at, b""
                if begin >= 0 and len(head) < _HEAD_BYTES:
                    head += line
                at += len(line)
        if begin >= 0:
            yield _Frame(raw, begin, at - begin), _step(finder, head)


def _step(finder: "re.Pattern[bytes]", head: bytes) -> int:
    match = finder.search(head)
    return int(match[1]) if match else -1


def _kept(text: str, leave_out: "re.Pattern[str] | None") -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and not (leave_out and leave_out.search(line))]


def _hold_lines(tally: Tally, left: list[str], right: list[str], where: str, step: int) -> None:
    if len(left) != len(right):
        hold(tally, "frame", left, right, where=where, step=step)
        return
    for number, (a, b) in enumerate(zip(left, right, strict=True), 1):
        if a == b:
            tally.add_equal()
        else:
            hold_labelled(tally, f"line {number}", a, b, where, step=step)


def _parts(text: bytes) -> tuple[list[list[str]], dict[str, dict[str, str]]]:
    """The words of the head, and the atoms by number: {"atom 17": {"x": "0.5"}}."""
    head, _, body = text.partition(b"ITEM: ATOMS")
    columns_line, _, rows = body.partition(b"\n")
    columns = columns_line.decode("latin-1").split()
    atoms: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows.decode("latin-1").splitlines(), 1):
        values = dict(zip(columns, row.split(), strict=False))
        atoms[f"atom {values['id']}" if "id" in values else f"row {number}"] = values
    return [line.split() for line in head.decode("latin-1").splitlines()], atoms
