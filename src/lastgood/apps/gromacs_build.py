"""How a GROMACS is built, and whether its runs are to be reproducible: for fingerprints."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from lastgood.core.machine_facts import gromacs_facts

_LIMIT_S = 20.0


def program_of(command: Sequence[str]) -> str:
    """The first word that is a GROMACS program, also behind mpirun or srun; empty if there is none.

    >>> program_of(["mpirun", "-n", "2", "/opt/bin/gmx_mpi", "mdrun"]), program_of(["python", "gmx.py"])
    ('/opt/bin/gmx_mpi', '')
    """
    names = ("gmx", "gmx_mpi", "gmx_d", "gmx_mpi_d", "mdrun", "mdrun_mpi")
    return next((word for word in command if os.path.basename(word) in names), "")


def facts_of(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """What the program says of its build, and whether the command has -reprod; empty for other commands."""
    program = program_of(command)
    found = shutil.which(program, path=environment.get("PATH")) if program else None
    if found is None:
        return {}
    reprod = {"gromacs.reprod": "on" if "-reprod" in command else "off"} if len(command) > 1 else {}
    try:
        said = subprocess.run(
            [found, "--version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return reprod
    return {**gromacs_facts(said.stdout.decode(errors="replace")), **reprod}
