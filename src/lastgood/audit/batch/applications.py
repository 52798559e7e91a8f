"""Programs that write checkpoints of their own accord: what they are called, and how they are told to go on. Pure."""

import re
from collections.abc import Iterator

import msgspec

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Word

_GMX = re.compile(r"(gmx|gromacs)(_\w+)?\Z")
_MDRUN = re.compile(r"mdrun(_\w+)?\Z")
_NO_PRODUCTION = re.compile(
    r"(^|[/_.0-9-])(em|min|mini|minim\w*|emin|steep\w*|bench\w*|test|nvt|npt|eq|eql|equil\w*|relax\w*)([/_.0-9-]|\Z)"
)
_LAMMPS = re.compile(r"(lmp|lammps)(_[\w.-]+)?\Z")
_RELION = re.compile(r"relion_refine(_mpi)?\Z")
_FOAM = re.compile(r"[a-z]\w*Foam\Z|foamRun\Z")
_FOAM_TOOLS = re.compile(
    r"(setExpr|topo|fluentMeshTo|gambitTo|ansysTo|ideasUnvTo|map|plot|star|vtk|cfx|paraFoam|foamTo|run|render)"
)
_IN_WORKING_DIRECTORY = re.compile(r"(vasp|cp2k|namd)(\d?_\w+|\d|\.\w+)*\Z")


class Mdrun(msgspec.Struct, frozen=True):
    """One run of GROMACS' mdrun."""

    command: Command
    launch: Launch
    arguments: tuple[Word, ...]
    """Behind `mdrun`."""
    parameters: str = ""
    """The file of parameters that `grompp` made its input of, where the script says so."""

    def has(self, *options: str) -> bool:
        return any(word.text in options for word in self.arguments)

    def value(self, option: str) -> Word | None:
        """What an option is given; None if it is not there, or has no value."""
        for word, following in zip(self.arguments, self.arguments[1:], strict=False):
            if word.text == option and not (following.text.startswith("-") and not following.text[1:2].isdigit()):
                return following
        return None

    @property
    def stem(self) -> str:
        """What its checkpoint is called, without `.cpt`."""
        named = self.value("-cpo") or self.value("-deffnm")
        return _stem(named.text) if named is not None else "state"

    @property
    def read_stem(self) -> str | None:
        """What the checkpoint is called that it reads; None if it reads none."""
        if not self.has("-cpi"):
            return None
        named = self.value("-cpi")
        default = self.value("-deffnm")
        return _stem(named.text) if named is not None else _stem(default.text) if default is not None else "state"

    @property
    def is_production(self) -> bool:
        """Neither a minimisation nor an equilibration, nor a benchmark, nor a reading of what is there."""
        if self.has("-rerun", "-resethway", "-noresethway", "-resetstep", "-noconfout", "-h", "-version"):
            return False
        hours = self.value("-maxh")
        if hours is not None and hours.text in ("0.1", "0.25", "0.5", "1", "2"):
            return False
        names = [self.value(option) for option in ("-deffnm", "-s")]
        texts = [self.parameters, *(name.text for name in names if name is not None)]
        return not any(_NO_PRODUCTION.search(text.lower()) for text in texts)

    @property
    def is_plain(self) -> bool:
        """Every option is known: neither a variable nor a placeholder of a template can hide one."""
        if any("{{" in word.text or "<" in word.text for word in self.arguments):
            return False
        return all(
            word.is_literal or not word.text.startswith("$") or before.text.startswith("-")
            for before, word in zip([self.launch.words[0], *self.arguments], self.arguments, strict=False)
        )


def _stem(name: str) -> str:
    """
    >>> [_stem(t) for t in ("./md.cpt", "md", "a/md_prev.cpt")]
    ['md', 'md', 'a/md_prev']
    """
    return name.removesuffix(".cpt").removeprefix("./")


def mdruns(script: BatchScript) -> Iterator[Mdrun]:
    made: dict[str, str] = {}
    for command, launch in script.work:
        texts = [word.text for word in launch.words]
        is_gmx = _GMX.match(launch.program) is not None or launch.program == ""
        if launch.program == "grompp" or (is_gmx and "grompp" in texts[:2]):
            made[_value(texts, "-o", "topol.tpr")] = _value(texts, "-f", "grompp.mdp")
        elif _MDRUN.match(launch.program) or (is_gmx and "mdrun" in texts[:3]):
            arguments = launch.words[texts.index("mdrun") + 1 :] if "mdrun" in texts[1:] else launch.words[1:]
            words = [word.text for word in arguments]
            read = _value(words, "-s", _value(words, "-deffnm", "topol") + ".tpr")
            yield Mdrun(command, launch, arguments, made.get(read, ""))


def _value(texts: list[str], option: str, default: str) -> str:
    i = texts.index(option) + 1 if option in texts else len(texts)
    return texts[i] if i < len(texts) else default


def lammps(script: BatchScript) -> Iterator[tuple[Command, Launch]]:
    return ((command, launch) for command, launch in script.work if _LAMMPS.match(launch.program))


def relion(script: BatchScript) -> Iterator[tuple[Command, Launch]]:
    return ((command, launch) for command, launch in script.work if _RELION.match(launch.program))


def openfoam(script: BatchScript) -> Iterator[tuple[Command, Launch]]:
    """Solvers, not the tools around them."""
    return (
        (command, launch)
        for command, launch in script.work
        if _FOAM.match(launch.program) and not _FOAM_TOOLS.match(launch.program)
    )


def keeps_where_it_runs(launch: Launch) -> bool:
    """True if a program writes what it goes on from into the directory where it runs."""
    texts = [word.text for word in launch.words]
    name = launch.program
    if _MDRUN.match(name) or (_GMX.match(name) and "mdrun" in texts):
        return True
    is_solver = _FOAM.match(name) is not None and _FOAM_TOOLS.match(name) is None
    return is_solver or bool(_LAMMPS.match(name) or _RELION.match(name) or _IN_WORKING_DIRECTORY.match(name))
