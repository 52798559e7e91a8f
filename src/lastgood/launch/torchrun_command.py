"""torchrun commands of which a second one can stand beside the first, waiting."""

import os
import shutil
from collections.abc import Mapping, Sequence

import msgspec

from lastgood.launch.python_command import is_named_python, parse_python_command

_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_FLAGS = {"standalone"}
_WITH_VALUE = {
    "nproc-per-node",
    "nnodes",
    "max-restarts",
    "monitor-interval",
    "rdzv-backend",
    "rdzv-endpoint",
    "rdzv-id",
    "role",
    "log-dir",
    "redirects",
    "tee",
    "r",
    "t",
}
"""Options that concern each torchrun alone. Of all others we do not know."""


class TorchrunCommand(msgspec.Struct, frozen=True):
    first_life: list[str]
    """The interpreter that it runs in, with its options."""
    words: list[str]
    assigned: dict[str, str] = {}


def parse_torchrun(command: Sequence[str], environment: Mapping[str, str]) -> TorchrunCommand | str:
    """A text that says why not, if it is no such command."""
    python = parse_python_command(command)
    if python is not None and python.module in _MODULES:
        found = TorchrunCommand([python.interpreter, *python.options], python.words, python.assigned)
        options = python.rest[2:]
    elif os.path.basename(command[0]) == "torchrun":
        interpreter = _interpreter_of(shutil.which(command[0], path=environment.get("PATH")))
        if not interpreter:
            return "it cannot be told which interpreter torchrun runs in; start it as `python -m torch.distributed.run`"
        found, options = TorchrunCommand([interpreter], list(command)), list(command[1:])
    else:
        return "torchrun is started by something else"
    given = _options(options)
    if isinstance(given, str):
        return given
    for name in {**environment, **found.assigned}:
        if name == "PYTHON_EXEC" or name.startswith("PET_"):
            return f"{name} is set"
    if given.get("max-restarts", "0") != "0":
        return "torchrun restarts its ranks itself; leave its --max-restarts at 0"
    if not _meets_alone(given):
        return "a second torchrun would meet the first; let it run with --standalone"
    return found


def _meets_alone(options: Mapping[str, str]) -> bool:
    """Its ranks are all on this node, and meet at an address that is found anew by each start."""
    if options.get("nnodes", "1") not in ("1", "1:1"):
        return False
    if "standalone" in options:
        return True
    return options.get("rdzv-backend") == "c10d" and options.get("rdzv-endpoint") in ("localhost:0", "127.0.0.1:0")


def _options(words: Sequence[str]) -> dict[str, str] | str:
    """Those before the script; a text if there is one that we do not know."""
    found: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-"):
        word = left.pop(0)
        name, equals, value = word.lstrip("-").replace("_", "-").partition("=")
        if name in ("m", "module") and not equals:
            return found
        if name in _FLAGS and not equals:
            found[name] = ""
        elif name in _WITH_VALUE and (equals or left):
            found[name] = value if equals else left.pop(0)
        else:
            return f"torchrun's option {word} is none of those with which it is known to work"
    return found if left else "torchrun has no script"


def _interpreter_of(script: str | None) -> str:
    """The Python in a script's first line; empty if it is anything else."""
    if script is None:
        return ""
    with open(script, "rb") as file:
        line = os.fsdecode(file.readline(4096)).strip()
    interpreter = line.removeprefix("#!").strip()
    is_plain = line.startswith("#!/") and " " not in interpreter
    return interpreter if is_plain and is_named_python(interpreter) else ""
