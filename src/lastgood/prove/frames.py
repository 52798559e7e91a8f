"""Trajectories in LAMMPS' dump format, frame by frame: of a step that was written twice, the last counts."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from lastgood.prove.difference import Difference
from lastgood.prove.raw_bytes import Raw
from lastgood.prove.tally import Tally
from lastgood.prove.values import hold

_MARK = b"ITEM: TIMESTEP"
_ATOMS = b"ITEM: ATOMS"


class Frames(msgspec.Struct, frozen=True):
    path: Path


class _Frame(msgspec.Struct, frozen=True):
    begin: int
    size: int


def hold_frames(tally: Tally, left: Frames, right: Frames, *, where: str = "") -> None:
    """Hold the frames of the steps that both have against each other. Atoms are matched by their number, where the file has
    it: their order may change when they move from one processor to another."""
    one, twice = _index(left.path)
    other, again = _index(right.path)
    for steps, run in ((twice, "undisturbed"), (again, "other")):
        if steps:
            tally.note(
                f"{where or left.path.name}: {steps:,} frames are twice in the {run} run's file; the last counts"
            )
    with Raw(left.path).open() as a, Raw(right.path).open() as b:
        for step in sorted(one.keys() | other.keys()):
            if step not in one or step not in other:
                reason = "only in the undisturbed run" if step in one else "only in the other run"
                difference = Difference(what="frame", left="", right="", where=where, step=step, reason=reason)
                tally.add(difference, is_allowed=False)
                continue
            texts = []
            for file, frame in ((a, one[step]), (b, other[step])):
                file.seek(frame.begin)
                texts.append(file.read(frame.size))
            if texts[0] == texts[1]:
                tally.add_equal(texts[0].count(b"\n"))
            else:
                heads, rows = zip(*(_parts(text) for text in texts), strict=True)
                hold(tally, "frame", *heads, where=where, step=step)
                hold(tally, "", *rows, where=where, step=step)


def _index(path: Path) -> tuple[dict[int, _Frame], int]:
    """Where the last frame of each step is, and how many there are beside these."""
    found: dict[int, _Frame] = {}
    count = 0
    for begin, size, step in _frames(path):
        found[step] = _Frame(begin, size)
        count += 1
    return found, count - len(found)


def _frames(path: Path) -> Iterator[tuple[int, int, int]]:
    begin, at, step, is_next = -1, 0, 0, False
    with Raw(path).open() as file:
        for line in file:
            if is_next:
                step = int(line) if line.strip().isdigit() else -1
                is_next = False
            elif line.startswith(_MARK):
                if begin >= 0:
                    yield begin, at - begin, step
                begin, is_next = at, True
            at += len(line)
    if begin >= 0:
        yield begin, at - begin, step


def _parts(text: bytes) -> tuple[list[list[str]], dict[str, dict[str, str]]]:
    """The words of the head, and the atoms by number: {"atom 17": {"x": "0.5"}}."""
    head, _, body = text.partition(_ATOMS)
    columns_line, _, rows = body.partition(b"\n")
    columns = columns_line.decode("latin-1").split()
    atoms: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows.decode("latin-1").splitlines(), 1):
        values = dict(zip(columns, row.split(), strict=False))
        atoms[f"atom {values['id']}" if "id" in values else f"row {number}"] = values
    return [line.split() for line in head.decode("latin-1").splitlines()], atoms
