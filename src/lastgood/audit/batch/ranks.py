"""How many tasks and nodes a batch script has, and whether its tasks depend on each other. Pure."""

import ast
import re

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context

_NUMBER = re.compile(r"\d+")
_COUPLING = frozenset(
    {"torch.distributed", "mpi4py", "deepspeed", "horovod", "lightning", "pytorch_lightning", "accelerate"}
)
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")

_MEETING = re.compile(r"--dist[-_](url|backend)(=.*)?")
"""Options in the manner of PyTorch's examples: where the tasks meet, and over what they talk."""


def _count(text: str) -> int | None:
    """A plain number; the least of a range ("2-4")."""
    match = _NUMBER.match(text.strip())
    return int(match[0]) if match else None


def node_count(script: BatchScript) -> int | None:
    """Nodes that the script asks for; None if it says nothing."""
    return _count(script.header.value("nodes"))


def task_count(script: BatchScript, launch: Launch) -> int | None:
    """Tasks that an srun starts, by its own options or else the script's; None if that is not known."""
    srun = launch.wrapper("srun")
    if srun is None:
        return None
    own, own_nodes = srun.option("-n", "--ntasks"), srun.option("-N", "--nodes")
    per_node = srun.option("--ntasks-per-node") or script.header.value("ntasks-per-node")
    nodes = _count(own_nodes) if own_nodes else node_count(script)
    if own is not None:
        return _count(script_value(script, own))
    total = script.header.value("ntasks")
    if total and not own_nodes:
        return _count(total)
    if per_node:
        count = _count(per_node)
        return None if count is None else count * (nodes or 1)
    return nodes or 1


def script_value(script: BatchScript, text: str) -> str:
    """`$SLURM_NTASKS` and its like as the header has them."""
    names = {
        "${SLURM_NTASKS}": "ntasks",
        "${SLURM_NPROCS}": "ntasks",
        "${SLURM_NNODES}": "nodes",
        "${SLURM_JOB_NUM_NODES}": "nodes",
    }
    return script.header.value(names[text]) if text in names else text


def are_coupled(script: BatchScript, context: Context, command: Command, launch: Launch) -> str:
    """Why its tasks surely wait for each other, in words; empty if that is not certain."""
    if any(wrapper.name in _LAUNCHERS for wrapper in launch.wrappers):
        return next(wrapper.name for wrapper in launch.wrappers if wrapper.name in _LAUNCHERS)
    program = context.find_program(script.path, launch.python_script) if launch.python_script else None
    if program is not None:
        found = next((name for node in ast.walk(program.tree) for name in _imports(node) if _is_coupling(name)), "")
        if found:
            return found
    is_python = launch.program == "python" or launch.program.endswith(".py")
    if is_python and any(a.name in _RENDEZVOUS and a.begin < command.begin for a in script.shell.assignments):
        return "MASTER_ADDR and MASTER_PORT"
    asked = next((word.text for word in launch.words if _MEETING.fullmatch(word.text)), "") if is_python else ""
    return asked.partition("=")[0]


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def _is_coupling(name: str) -> bool:
    return name.partition(".")[0] in _COUPLING or ".".join(name.split(".")[:2]) in _COUPLING
