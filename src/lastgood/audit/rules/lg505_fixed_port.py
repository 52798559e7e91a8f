"""LG505: the tasks of an array meet at one and the same port."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Span

_WHOLE_NODE_GPUS = 4
_GPUS = re.compile(r"(?:gpu(?::[\w.-]+)?:|^)(\d+)")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.is_array or script.is_chained_array or script.uses_lastgood or _has_whole_nodes(script):
        return
    found = _port(script)
    if found is None:
        return
    port, span = found
    yield Hit(
        span=span,
        message=f"each task of the array uses port {port}: two of them on one node clash, and the second one fails at its start "
        "with `address already in use`",
        remedy="write `MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000))`; each task of an array has its own SLURM_JOB_ID",
    )


def _port(script: BatchScript) -> tuple[str, Span] | None:
    for assignment in script.shell.assignments:
        value = assignment.value
        if assignment.name == "MASTER_PORT" and value is not None and value.is_literal and value.text.isdecimal():
            return value.text, assignment.span
    for _, launch in script.work:
        for wrapper in launch.wrappers:
            port = wrapper.option("--master-port", "--master_port", "--main_process_port")
            if wrapper.name in ("torchrun", "accelerate", "deepspeed") and port and port.isdecimal() and port != "0":
                return port, wrapper.words[0].span
    return None


def _has_whole_nodes(script: BatchScript) -> bool:
    header = script.header
    if header.get("exclusive") is not None:
        return True
    texts = [header.value(name) for name in ("gres", "gpus-per-node", "gpus", "gpus-per-task")]
    return any(int(match[1]) >= _WHOLE_NODE_GPUS for text in texts for match in [_GPUS.search(text)] if match)


RULE = Rule(
    code="LG505",
    name="fixed-port",
    severity=Severity.NOTE,
    what="An array job whose tasks may share a node and use the same fixed port (MASTER_PORT, `--master-port`).",
    why="Only one process on a node can listen at a port. When Slurm puts two tasks of the array on one node, the second one "
    "fails at its start; whether it does depends on what else runs, and shows first after a requeue.",
    bad="""\
#!/bin/bash
#SBATCH --array=0-9
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%A_%a.out
export MASTER_ADDR=localhost
export MASTER_PORT=29500
python train.py --resume --run "$SLURM_ARRAY_TASK_ID"
""",
    good="""\
#!/bin/bash
#SBATCH --array=0-9
#SBATCH --gres=gpu:1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%A_%a.out
export MASTER_ADDR=localhost
export MASTER_PORT=$((10000 + SLURM_JOB_ID % 50000))
python train.py --resume --run "$SLURM_ARRAY_TASK_ID"
""",
    safe_to_ignore="The cluster gives whole nodes only.",
    source="bind(2), EADDRINUSE; torch.distributed's documentation of MASTER_PORT",
    reads=BatchScript,
    check=check,
)
