"""Asking Slurm for GPUs of the type that a job began on. Pure."""

import re
from collections.abc import Mapping, Sequence

from lastgood.schedulers.slurm_options import SbatchOptions

_TYPES = re.compile(r"(?:^|,)gpu:([A-Za-z_][\w.-]*):\d+")
_UNTYPED = re.compile(r"gpu(?::(\d+))?\Z", re.ASCII)
_COUNT = re.compile(r"\d+\Z", re.ASCII)
_COUNTS = (("gpus", "G"), ("gpus-per-node", ""), ("gpus-per-socket", ""), ("gpus-per-task", ""))


def type_of_node(gres: str) -> str:
    """The one type of GPU that a node has, by its Gres; empty if it has several, or if types have no names there.

    >>> type_of_node("gpu:a100:4(S:0-1)"), type_of_node("gpu:4"), type_of_node("gpu:a100:4,gpu:t4:1")
    ('a100', '', '')
    """
    types = {*_TYPES.findall(gres)}
    return types.pop() if len(types) == 1 else ""


def with_type(words: Sequence[str], environment: Mapping[str, str], gpu_type: str) -> list[str]:
    """What to add to words for sbatch, so that GPUs which they ask for are of a type. What names a type already stays.

    >>> with_type(["--gres=gpu:2", "--gpus-per-task=1"], {}, "a100")
    ['--gres=gpu:a100:2', '--gpus-per-task=a100:1']
    """
    options = SbatchOptions(words, environment)
    found = []
    gres = options.value("gres", "", "SBATCH_GRES")
    parts = [_UNTYPED.sub(lambda m: f"gpu:{gpu_type}:{m[1] or 1}", part) for part in gres.split(",")]
    if ",".join(parts) != gres:
        found.append(f"--gres={','.join(parts)}")
    for name, letter in _COUNTS:
        value = options.value(name, letter, f"SBATCH_{name.upper().replace('-', '_')}")
        if _COUNT.match(value):
            found.append(f"--{name}={gpu_type}:{value}")
    return found
