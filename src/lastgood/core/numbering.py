"""Which of several checkpoints is the newest, by the numbers in their names. Pure.

Names are compared only with names of their own kind: those that are equal but for their numbers. Whole
numbers count, from left to right, whatever their padding; decimal fractions (`loss=0.25`) are measurements
and only break ties. The digit of a format (`.h5`) counts nothing.
"""

import re

import msgspec

_NUMBER = re.compile(r"\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]\d+|\d+")
_FORMAT = re.compile(
    r"\.(?:h[45]|he5|hdf[45]|nc4|bp[345]|ex2|rst7|bz2|lz4|7z|fp16|bf16|fp32|fp64|md5|sha1|sha256|sha512)(?=/|$|\.\D)",
    re.IGNORECASE,
)
"""Suffixes that have a number and no step. Others may have one: `run.it012`, `ckpt.e5`, `model.step100`."""
_TEMPORARY_SUFFIXES = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".lock", ".swp", "~")
_TEMPORARY_PREFIXES = (".", "tmp_", "tmp-", "tmp.", "temp_")


class Named(msgspec.Struct, frozen=True):
    """A checkpoint of a program that is not ours: its name, and when it was last written (seconds since 1970)."""

    name: str
    """The part of its path that can differ between checkpoints."""
    modified: float = 0.0


def is_temporary(name: str) -> bool:
    """True for a name that somebody is still writing to, or that is hidden: it never counts.

    >>> [is_temporary(n) for n in ("step_9.pt", "step_9.pt.tmp", "tmp_step_9.pt", ".step_9.pt", "step_9.pt~")]
    [False, True, True, True, True]
    """
    lower = name.lower()
    return lower.endswith(_TEMPORARY_SUFFIXES) or lower.startswith(_TEMPORARY_PREFIXES)


def kind_of(name: str) -> str:
    """A name without its numbers.

    >>> kind_of("epoch=3-step=0120.ckpt")
    'epoch=#-step=#.ckpt'
    """
    return _NUMBER.sub("#", name)


def numbers_in(name: str) -> tuple[int, ...]:
    """The whole numbers in a name, from left to right.

    >>> numbers_in("epoch=3-step=0120-loss=0.25.ckpt"), numbers_in("step_9.h5")
    ((3, 120), (9,))
    """
    return tuple(int(text) for text in _NUMBER.findall(_FORMAT.sub("", name)) if text.isdigit())


def step_in(name: str) -> int:
    """The number that stands for the progress in a name: its last whole number; 0 if it has none."""
    return max(numbers_in(name)[-1:], default=0)


def free_numbers_in(name: str, pattern: str) -> tuple[int, ...]:
    """The whole numbers in a name that matches `pattern`, if they can grow from checkpoint to checkpoint:
    none if they are what the pattern itself spells out.

    >>> free_numbers_in("v2_step_7.pt", "v2_step_*.pt"), free_numbers_in("v2_last.pt", "v2_*.pt")
    ((2, 7), ())
    """
    numbers = numbers_in(name)
    return () if numbers == numbers_in(pattern) else numbers


def newest_first(checkpoints: list[Named]) -> list[Named]:
    """Newest first.

    >>> [c.name for c in newest_first([Named("step_9.pt"), Named("step_10.pt"), Named("step_0008.pt")])]
    ['step_10.pt', 'step_9.pt', 'step_0008.pt']

    Kinds of names cannot be compared by numbers: the kind whose newest member was written last comes first,
    and kinds without any number (`best.pt`) come after those that have some.
    """
    kinds: dict[str, list[Named]] = {}
    for checkpoint in checkpoints:
        kinds.setdefault(kind_of(checkpoint.name), []).append(checkpoint)
    for members in kinds.values():
        members.sort(key=_age_key, reverse=True)
    ordered = sorted(
        kinds.values(),
        key=lambda members: (bool(numbers_in(members[0].name)), members[0].modified, members[0].name),
        reverse=True,
    )
    return [checkpoint for members in ordered for checkpoint in members]


def _age_key(checkpoint: Named) -> tuple[tuple[int, ...], float, str]:
    return (numbers_in(checkpoint.name), checkpoint.modified, checkpoint.name)


class Contents(msgspec.Struct, frozen=True):
    """The files of a checkpoint directory, by their paths within it, and the step in the directory's name."""

    step: int
    files: frozenset[str]


def missing_files(directory: Contents, others: list[Contents]) -> list[str]:
    """Which files a checkpoint directory lacks that more than half of the others have.

    A file whose name tells its own step has its counterpart under the other step.

    >>> missing_files(Contents(500, frozenset({"m.pt"})), [Contents(400, frozenset({"m.pt", "optimizer.pt"}))])
    ['optimizer.pt']
    >>> missing_files(Contents(500, frozenset({"state500.pt"})), [Contents(400, frozenset({"state400.pt"}))])
    []
    """
    counts: dict[str, int] = {}
    for other in others:
        for name in other.files:
            here = re.sub(rf"(?<!\d)(0*){other.step}(?!\d)", rf"\g<1>{directory.step}", name)
            if name not in directory.files and here not in directory.files:
                counts[here] = counts.get(here, 0) + 1
    return sorted(name for name, count in counts.items() if 2 * count > len(others))
