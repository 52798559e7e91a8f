"""Which of the files that a program writes are its checkpoints, and which is the newest. Pure."""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import msgspec

from lastgood.core.numbering import kind_of, numbers_in
from lastgood.prove.plan_of_kills import Save
from lastgood.prove.watching import Written

_NO_CHECKPOINTS = (
    *(
        ".log",
        ".txt",
        ".out",
        ".err",
        ".csv",
        ".tsv",
        ".jsonl",
        ".md",
        ".html",
        ".png",
        ".svg",
        ".pdf",
        ".yaml",
        ".yml",
    ),
    *(".toml", ".ini", ".py", ".pyc", ".lock", ".pid", ".xtc", ".trr", ".edr", ".dcd", ".gro", ".pdb", ".xyz", ".sock"),
)
_OF_STATE = (
    *(
        ".pt",
        ".pth",
        ".ckpt",
        ".npz",
        ".npy",
        ".safetensors",
        ".pkl",
        ".pickle",
        ".h5",
        ".hdf5",
        ".cpt",
        ".chk",
        ".bin",
    ),
    *(".restart", ".rst", ".msgpack", ".tar", ".sav", ".dump", ".mat", ".nc"),
)
"""What state is usually kept in: where there is any of it, other files are not taken for checkpoints."""
_SAME_LOOK_S = 1e-3
"""Between the times of one look."""
_TOGETHER_S = 0.25
"""The files of a checkpoint with several are written within this time of each other."""


class Units(msgspec.Struct, frozen=True):
    """The checkpoints of a run: which kinds of files belong to them."""

    kinds: tuple[str, ...]
    """Paths with `#` in place of numbers."""
    is_guessed: bool = False
    are_numbered_by_step: bool = False
    """The last number in their names counts steps, rather than epochs or parts."""

    def unit_of(self, path: str) -> str | None:
        """The checkpoint that a file belongs to; None if it belongs to none: a directory with a number in its name is one
        checkpoint, with all that is in it."""
        return numbered_part(path) if kind_of(path) in self.kinds else None


def numbered_part(path: str) -> str:
    """A path up to the first part that has a number; all of it, if none has.

    >>> numbered_part("out/checkpoint-500/optimizer.pt"), numbered_part("out/last.pt"), numbered_part("0.06/U")
    ('out/checkpoint-500', 'out/last.pt', '0.06')
    """
    parts = path.split("/")
    for i, part in enumerate(parts):
        # A time such as 0.06 is a number only as the name of a directory: in that of a file it may be a loss.
        if numbers_in(part) or (i < len(parts) - 1 and kind_of(part) == "#"):
            return "/".join(parts[: i + 1])
    return path


def matching(written: Sequence[Written], is_match: Callable[[str], bool]) -> Units:
    """Those that the user's pattern names: `is_match` tells for a path."""
    return Units(tuple(dict.fromkeys(kind_of(one.path) for one in written if is_match(one.path))))


def guess(written: Sequence[Written], end: float) -> Units:
    """What is written before the end of a run, and is no log: the kinds of files that are written anew, or under another
    number, or at least before the end."""
    early: dict[str, list[Written]] = {}
    for one in written:
        is_text = PurePosixPath(one.path).suffix.lower() in _NO_CHECKPOINTS or "tfevents" in one.path
        if not is_text and one.size_bytes and one.at < end:
            early.setdefault(kind_of(one.path), []).append(one)
    kinds = [kind for kind, ones in early.items() if len(ones) > 1] or list(early)
    of_state = {
        numbered_part(kind.replace("#", "0")) for kind in kinds if PurePosixPath(kind).suffix.lower() in _OF_STATE
    }
    chosen = [kind for kind in kinds if numbered_part(kind.replace("#", "0")) in of_state]
    return Units(tuple(chosen or kinds), is_guessed=True)


def saves_of(written: Sequence[Written], units: Units, began: float) -> tuple[Save, ...]:
    """The checkpoints that were written, in order of time. What is seen again while it is still written is one."""
    saves: list[Save] = []
    newest: dict[str, tuple[Written, int]] = {}
    """By checkpoint: which of its files was last seen, and its place in `saves`."""
    for one in written:
        unit = units.unit_of(one.path)
        if unit is None:
            continue
        before, place = newest.get(unit, (None, -1))
        if before is not None and _is_same_save(before, one):
            # It was complete when it was last seen.
            saves[place] = msgspec.structs.replace(saves[place], at_s=one.at - began, step_by=one.step_by)
        else:
            place = len(saves)
            saves.append(Save(one.at - began, unit, one.step, one.step_by))
        newest[unit] = (one, place)
    if units.are_numbered_by_step:
        saves = [Save(save.at_s, save.path, numbers_in(save.path)[-1]) for save in saves]
    return tuple(saves)


def _is_same_save(before: Written, now: Written) -> bool:
    is_next_look = now.since - before.at < _SAME_LOOK_S
    if before.path != now.path:
        return is_next_look or now.at - before.at < _TOGETHER_S
    return is_next_look and now.inode == before.inode and now.size_bytes > before.size_bytes


def are_steps(paths: Sequence[str], last_step: int | None) -> bool:
    """The last number in the names counts steps, rather than epochs or parts."""
    numbers = [numbers_in(path)[-1] for path in paths if numbers_in(path)]
    if last_step is None or not numbers or len(numbers) < len(paths):
        return False
    return numbers == sorted(numbers) and 0.3 * last_step < numbers[-1] <= last_step + 1
