"""Input files of applications, written by the script itself or lying beside it. Pure."""

import re

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context

_FOAM_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def text_of(script: BatchScript, context: Context, path: str) -> str | None:
    """The text of an input file; None if nobody can tell it."""
    for doc in script.shell.heredocs:
        if doc.command is not None and any(
            redirect.operator == ">" and _is_same(script.resolve(redirect.target).text, path)
            for redirect in doc.command.redirects
        ):
            return script.source.text(doc.begin, doc.end)
    return context.read_text(script.path, path)


def foam_entry(text: str, name: str) -> str | None:
    """A top-level entry of an OpenFOAM dictionary.

    >>> foam_entry("startFrom  latestTime; // or startTime;", "startFrom")
    'latestTime'
    """
    match = re.search(rf"^\s*{name}\s+([^;\s]+)\s*;", _FOAM_COMMENT.sub("", text), re.MULTILINE)
    return match[1] if match is not None else None


def lammps_input(script: BatchScript, command: Command, launch: Launch) -> str | None:
    """The path of the input that LAMMPS is given; None if it is not literal."""
    word = launch.argument("-in", "-i")
    if word is None:
        word = next((script.resolve(r.target) for r in command.redirects if r.operator == "<"), None)
    return word.text if word is not None and word.is_literal else None


def lammps_commands(text: str) -> list[list[str]]:
    """The commands of a LAMMPS input, without comments; lines that end with `&` go on.

    >>> lammps_commands("run 10 # go\\nrestart 5 &\\n  a b\\n")
    [['run', '10'], ['restart', '5', 'a', 'b']]
    """
    joined = re.sub(r"&[ \t]*\n", " ", text)
    return [words for line in joined.splitlines() if (words := line.partition("#")[0].split())]


def _is_same(written: str, path: str) -> bool:
    return written.removeprefix("./") == path.removeprefix("./") or written.endswith("/" + path.removeprefix("./"))
