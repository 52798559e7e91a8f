"""What each application leaves as its answer, found in a directory where it has run: for proofs.

Never identical between two runs, and so left out: GROMACS' log and the times in its checkpoint; OpenFOAM's uniform/time, whose
last digits depend on where a run was resumed; LAMMPS' restart files by name, which alternate; comments in RELION's STAR
files, which hold the command.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from lastgood.apps.openfoam_files import times_in
from lastgood.launch.ports import Result

_PART = re.compile(r"\.part(\d{4,})$")
_RELION_PARTS = ("data.star", "model.star", "sampling.star", "optimiser.star", "classes.mrcs", "class001.mrc")
_PROCESSOR = re.compile(r"processors?\d+(?:_\d+-\d+)?")
_SUMS = r"^\s*energy_n?(?:sum|aver|steps)"
_STEPS_OF_PART = r"\bnsteps:|\bsum steps:"
"""Averages are taken from the start of a part on: where a run went on in files of its own, they are others."""
_IN_CHECKPOINT = (
    r"^GROMACS (?:version|build)",
    r"^generating (?:program|time|host)",
    r"^generation time",
    r"^simulation part #",
    r"^file_(?:offset|checksum)",
    r"^output filename",
)


def results_of(application: str, command: Sequence[str], directory: str) -> list[Result]:
    """The results of an application known by that name, of `command` run in `directory`; empty where it has none that is
    known, or has written none."""
    find = _KNOWN.get(application)
    return [one for one in find(list(command), directory) if one.paths] if find is not None else []


def _gromacs(command: list[str], directory: str) -> Iterator[Result]:
    base = _value(command, "-deffnm")
    program = next((word for word in command if os.path.basename(word).startswith("gmx")), "gmx")
    dump = (program, "-quiet", "dump")
    in_parts = False
    for name, option, default, suffix, kind, flag in (
        ("energies", "-e", "ener", ".edr", "gromacs energies", "-e"),
        ("trajectory", "-o", "traj", ".trr", "gromacs trajectory", "-f"),
        ("compressed trajectory", "-x", "traj_comp", ".xtc", "gromacs trajectory", "-f"),
    ):
        named = _with_suffix(_value(command, option) or base or default, suffix)
        paths = tuple(_parts(directory, named))
        in_parts = in_parts or len(paths) > 1
        leave_out = (_STEPS_OF_PART,) if kind == "gromacs energies" and in_parts else ()
        yield Result(name, paths, kind, leave_out, (*dump, flag, "{path}"))
    final = _with_suffix(_value(command, "-c") or base or "confout", ".gro")
    yield Result("final coordinates", tuple(_parts(directory, final)[-1:]))
    state = _with_suffix(_value(command, "-cpo") or base or "state", ".cpt")
    there = (state,) if os.path.isfile(os.path.join(directory, state)) else ()
    yield Result(
        "final state", there, "text", (*_IN_CHECKPOINT, *([_SUMS] if in_parts else [])), (*dump, "-cp", "{path}")
    )


def _parts(directory: str, name: str) -> list[str]:
    """The file, and those in which a run with -noappend went on, in order."""
    stem, suffix = os.path.splitext(name)
    folder, base = os.path.split(stem)
    found = []
    for entry in _entries(os.path.join(directory, folder)):
        entry_stem, entry_suffix = os.path.splitext(entry)
        if entry_suffix != suffix:
            continue
        part = _PART.search(entry_stem)
        if entry_stem == base or (part is not None and entry_stem[: part.start()] == base):
            found.append((int(part[1]) if part else 0, os.path.join(folder, entry)))
    return [path for _, path in sorted(found)]


def _openfoam(command: list[str], directory: str) -> Iterator[Result]:
    case = _value(command, "-case") or "."
    root = os.path.join(directory, case)
    processors = [name for name in _entries(root) if _PROCESSOR.fullmatch(name)]
    of_ranks = sorted(processors, key=lambda name: (len(name), name)) if "-parallel" in command else [""]
    for rank in of_ranks:
        times = times_in(os.path.join(root, rank))
        if not times:
            continue
        last = max(times, key=lambda name: times[name])
        place = os.path.join(root, rank, last)
        for field in sorted(_files_below(place)):
            if not field.startswith("uniform" + os.sep):
                name = os.path.join(rank, last, field)
                yield Result(name, (os.path.normpath(os.path.join(case, name)),))


def _lammps(command: list[str], directory: str) -> Iterator[Result]:
    path = _value(command, "-in") or _value(command, "-i")
    lines = _lammps_lines(os.path.join(directory, path)) if path else []
    log = _value(command, "-log") or _value(command, "-l") or "log.lammps"
    for words in lines:
        if words[0] == "log" and len(words) > 1:
            log = words[1]
    logs = [log, *(f"{log}.{number}" for number in range(2, 1000))]
    yield Result("thermodynamic output", tuple(_there(directory, logs)), "lammps log")
    names = [words[5] for words in lines if words[0] == "dump" and len(words) > 5]
    names += [words[3] for words in lines if words[0] == "write_dump" and len(words) > 3]
    for name in dict.fromkeys(names):
        for found in _matching(directory, name):
            yield Result(f"dump {found}", (found,))
    for name in dict.fromkeys(words[1] for words in lines if words[0] == "write_data" and len(words) > 1):
        for found in _matching(directory, name):
            yield Result(f"data {found}", (found,), leave_out=(r"^LAMMPS data file",))


def _lammps_lines(path: str) -> list[list[str]]:
    """The commands of an input as words; what holds a variable cannot be known here."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read().replace("&\n", " ")
    except OSError:
        return []
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words for words in lines if words and not any("$" in word for word in words)]


def _relion(command: list[str], directory: str) -> Iterator[Result]:
    root = _value(command, "--o")
    if not root:
        return
    folder, base = os.path.split(root)
    entries = _entries(os.path.join(directory, folder))
    numbered = re.compile(rf"{re.escape(base)}_it(\d{{3,}})_data\.star")
    iterations = [match[1] for entry in entries if (match := numbered.fullmatch(entry))]
    for stem in (f"{base}_it{max(iterations, key=int)}" if iterations else "", base):
        for part in _RELION_PARTS:
            name = f"{stem}_{part}"
            if stem and name in entries:
                leave_out = (r"^#", r"^\s*$") if part.endswith(".star") else ()
                yield Result(name, (os.path.join(folder, name),), leave_out=leave_out)


_KNOWN: dict[str, Callable[[list[str], str], Iterable[Result]]] = {
    "gromacs": _gromacs,
    "openfoam": _openfoam,
    "lammps": _lammps,
    "relion": _relion,
}


def _value(command: Sequence[str], option: str) -> str | None:
    at = command.index(option) + 1 if option in command else len(command)
    return command[at] if at < len(command) and not command[at].startswith("-") else None


def _with_suffix(name: str, suffix: str) -> str:
    return name if os.path.splitext(name)[1] else name + suffix


def _entries(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory or "."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _there(directory: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if os.path.isfile(os.path.join(directory, name))]


def _matching(directory: str, name: str) -> list[str]:
    """The files of a name with `*` for a step."""
    if "*" not in name:
        return _there(directory, [name])
    folder, base = os.path.split(name)
    before, _, behind = base.partition("*")
    pattern = re.compile(rf"{re.escape(before)}\d+{re.escape(behind)}")
    return [
        os.path.join(folder, entry) for entry in _entries(os.path.join(directory, folder)) if pattern.fullmatch(entry)
    ]


def _files_below(directory: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(directory):
        found += [os.path.relpath(os.path.join(folder, name), directory) for name in names]
    return found
