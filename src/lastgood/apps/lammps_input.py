"""The input that LAMMPS is given in place of a plain one of the user's.

It has the same commands, and these more: a look for a stop request, an end that saves and leaves out the final results
where the run was stopped, and at the very end a restart file as proof that all of it was done. Resumed, it reads a restart
file in place of building the system.
"""

import math
import os
import re
from collections.abc import Callable

import msgspec
import xxhash

from lastgood.apps.lammps_script import Command, Role, Script

_LOOK_STEPS = 10
"""Between two looks for a stop request: each costs some 20 microseconds and, behind several ranks, one reduction."""
_SAVES = 100
STOPPED = "lastgood: stopped and saved at step"


class Names(msgspec.Struct, frozen=True):
    """Our files beside those of the run."""

    input: str
    stop: str
    stopped: str
    end: str
    system: str
    saves: tuple[str, str]
    temporary: str

    @classmethod
    def of(cls, path: str) -> "Names":
        base = re.sub(r"[^A-Za-z0-9_.+-]", "_", os.path.basename(path)) + ".lastgood-"
        return cls(
            base + "input",
            base + "STOP",
            base + "stopped",
            base + "end",
            base + "system",
            (base + "1", base + "2"),
            base + "writing",
        )


def system_mark(script: Script) -> str:
    """Tells the commands that build a system from others."""
    return xxhash.xxh3_64(script.built_by.encode("utf-8", "surrogateescape")).hexdigest()


def saved_every(script: Script) -> int:
    """Steps between two restart files, where the input asks for none: a hundredth of the work."""
    return max(math.ceil((script.last_step - script.first_step) / _SAVES), 1)


def make_input(script: Script, names: Names, resumed_from: tuple[str, int] | None, left_s: float | None) -> str:
    """The text of the input, for a start from zero or from a restart file and its step."""
    head = "from zero" if resumed_from is None else f"from step {resumed_from[1]}"
    lines = [
        f"# Written by lastgood for a start {head}. Written again at each start: edit the input that it was made from."
    ]
    for command in script.commands:
        if command.role is Role.RUN:
            lines += _run(script, names, is_fresh=resumed_from is None, left_s=left_s)
        elif resumed_from is None:
            lines.append(command.text)
        else:
            lines += _resumed(command, *resumed_from)
    lines += [f"write_restart {names.temporary}", f"shell mv {names.temporary} {names.end}"]
    return "\n".join(lines) + "\n"


def _resumed(command: Command, path: str, step: int) -> list[str]:
    changed: dict[Role, Callable[[str], list[str]]] = {
        Role.BOX: lambda text: [f"# {text}", f"read_restart {_quoted(path)}"],
        Role.BUILD: lambda text: [f"# {text}"],
        Role.ONCE: lambda text: [f"# {text}"],
        Role.DUMP: lambda text: [text, f"dump_modify {text.split()[1]} append yes"],
        Role.WRITES: lambda text: [_into_new_file(text, step)],
        Role.LOG: lambda text: [text if text.split()[-1] in ("append", "none") else f"{text} append"],
    }
    return changed[command.role](command.text) if command.role in changed else [command.text]


def _quoted(path: str) -> str:
    return path if re.fullmatch(r"[\w./+-]+", path) else f'"{path}"'


def _into_new_file(text: str, step: int) -> str:
    """`file NAME` becomes `file NAME.from-STEP`; what stands in quotes is text."""

    def renamed(match: re.Match[str]) -> str:
        name = (match[1] or "").strip("\"'")
        return f" file {_quoted(f'{name}.from-{step}')}" if name else match[0]

    return re.sub(r"'[^']*'|\"[^\"]*\"|\sfile\s+(\"[^\"]*\"|'[^']*'|\S+)", renamed, text)


def _run(script: Script, names: Names, *, is_fresh: bool, left_s: float | None) -> list[str]:
    first, last = script.first_step, script.last_step
    lines = [f"restart {saved_every(script)} {' '.join(names.saves)}"] if not script.is_saving else []
    if is_fresh:
        lines.append(f'print "$(atoms) {system_mark(script)}" file {names.system} screen no')
    if left_s is not None:
        lines.append(f"timer timeout {max(round(left_s), 1)} every {_LOOK_STEPS}")
    return [
        *lines,
        "thermo_modify flush yes",
        # Each rank looks for the file by itself. If one sees it a step before another, they wait for each other for ever;
        # so the answer is the largest of all ranks'.
        f"variable lastgood_seen atom is_file({names.stop})",
        "compute lastgood_seen all reduce max v_lastgood_seen",
        "variable lastgood_stop equal c_lastgood_seen",
        f"fix lastgood_stop all halt {_LOOK_STEPS} v_lastgood_stop > 0.5 error continue",
        # With start and stop, what is ramped over the run goes on where it was.
        f"run {last} upto start {first} stop {last}",
        f'if "$(step) < {last}" then "write_restart {names.temporary}" "shell mv {names.temporary} {names.stopped}" &',
        f'  "print \'{STOPPED} $(step)\'" "quit 0"',
        "unfix lastgood_stop",
        "uncompute lastgood_seen",
    ]
