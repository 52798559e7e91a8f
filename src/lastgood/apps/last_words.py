"""The last step that applications tell of, in the end of what they have printed. Pure.

The end may begin in the middle of a line, and end in the middle of one: where it is killed, a program has not written the
rest. A number that is cut off would be another one, so only whole lines count.
"""

import os
import re

END_BYTES = 2**16

_GROMACS = re.compile(r"^ +Step +Time\n +(\d+) +\S+\n", re.MULTILINE)
_GROMACS_VERBOSE = re.compile(r"^step (\d+)[, ].*\n", re.MULTILINE)
_OPENFOAM = re.compile(r"^Time = ([-+.\deE]+)s?\n", re.MULTILINE)
_LAMMPS_HEAD = re.compile(r"^ *Step +\w.*\n", re.MULTILINE)
_LAMMPS_ROW = re.compile(r"^ *(\d+)(?: +[-+]?(?:[\d.]+(?:[eE][-+]?\d+)?|nan|inf))+ *\n", re.MULTILINE)
_LAMMPS_MULTI = re.compile(r"^-+ Step +(\d+) -+ CPU.*\n", re.MULTILINE)
_RELION = re.compile(r"^ *(?:Auto-refine: Iteration= *(\d+)|Expectation iteration (\d+))\b.*\n", re.MULTILINE)


def gromacs_step(words: str) -> int | None:
    """In md.log, or in what `mdrun -v` prints.

    >>> gromacs_step("           Step           Time\\n           1000        2.00000\\n\\n           Step           Ti")
    1000
    """
    found = [*_GROMACS.findall(words), *_GROMACS_VERBOSE.findall(words.replace("\r", "\n"))]
    return max(map(int, found), default=None)


def openfoam_time(words: str) -> float | None:
    """A time is printed when its step begins: where it is killed, that one is lost, too.

    >>> openfoam_time("Time = 0.1\\n\\nsmoothSolver: ...\\nTime = 0.15\\n\\nsmooth"), openfoam_time("Time = 0.1")
    (0.15, None)
    """
    found = _OPENFOAM.findall(words)
    try:
        return float(found[-1]) if found else None
    except ValueError:
        return None


def lammps_step(words: str) -> int | None:
    """Of the thermodynamic output, in one line or several for a step.

    >>> lammps_step("Step Temp E_pair\\n  0  3.0  -6.77\\n  50 1.65 -4.8\\nLoop time of 0.1\\nStep Temp\\n 60 1.7\\n 7")
    60
    >>> lammps_step("---------------- Step      100 ----- CPU =  0.08 (sec) ----------------\\nTotEng = 3\\n")
    100
    """
    heads = list(_LAMMPS_HEAD.finditer(words))
    # Where the head is not there any more, the first line may be the end of one.
    rows = _LAMMPS_ROW.findall(words, heads[-1].end() if heads else words.find("\n") + 1)
    if heads and not rows:
        rows = _LAMMPS_ROW.findall(words, words.find("\n") + 1, heads[-1].start())
    found = [*rows[-1:], *_LAMMPS_MULTI.findall(words)[-1:]]
    return max(map(int, found), default=None)


def relion_iteration(words: str) -> int | None:
    """The one that it computes.

    >>> relion_iteration(" Expectation iteration 2 of 3\\n 0/ 1 sec ...\\n Expectation iteration 3 of 3\\n")
    3
    """
    found = _RELION.findall(words.replace("\r", "\n"))
    return int(found[-1][0] or found[-1][1]) if found else None


def read_end(path: str) -> str:
    """The end of a log. Raises OSError."""
    with open(path, "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - END_BYTES, 0))
        return file.read().decode("utf-8", "replace")
