"""LG503: torchrun is to restart workers on several nodes, with a rendezvous at which nodes cannot meet again."""

from collections.abc import Iterator

from lastgood.audit.batch.programs import Wrapper
from lastgood.audit.batch.ranks import node_count
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def restarts(torchrun: Wrapper) -> int:
    """How often it restarts its workers; 0 where that is not a plain number."""
    text = torchrun.option("--max-restarts", "--max_restarts") or "0"
    return int(text) if text.isascii() and text.isdecimal() else 0


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    for _command, launch in script.work:
        torchrun = launch.wrapper("torchrun")
        if torchrun is None or not restarts(torchrun) or torchrun.option("--standalone") is not None:
            continue
        backend = torchrun.option("--rdzv-backend", "--rdzv_backend")
        nodes = torchrun.option("--nnodes") or ""
        several = (node_count(script) or 1) > 1 and nodes not in ("1", "1:1")
        if backend in (None, "static") and several:
            said = "`static`" if backend else "no `--rdzv-backend`, so static"
            yield Hit(
                span=torchrun.words[0].span,
                message=f"torchrun restarts its workers up to {restarts(torchrun)} times, but its rendezvous is fixed ({said}): "
                "the other nodes do not learn of a restart, and the ranks never meet",
                remedy='add `--rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"`, or leave '
                "restarts to Slurm (`--max-restarts=0`)",
            )
            return


RULE = Rule(
    code="LG503",
    name="restarts-without-rendezvous",
    severity=Severity.WASTEFUL,
    what="torchrun with `--max-restarts` on several nodes, and no rendezvous backend but the fixed one.",
    why="With `--master-addr` and `--node-rank` the rendezvous is static: it reports no waiting nodes, so the agents on the "
    "other nodes do not restart when one does. The job stands still until a timeout, and the restart that was to save "
    "time costs it.",
    bad="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 torchrun --nnodes=4 --nproc-per-node=8 --max-restarts=3 \\
    --node-rank="$SLURM_NODEID" --master-addr="$MASTER_ADDR" train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 torchrun --nnodes=4 --nproc-per-node=8 --max-restarts=0 \\
    --node-rank="$SLURM_NODEID" --master-addr="$MASTER_ADDR" train.py --resume
""",
    safe_to_ignore="The nodes do not depend on each other.",
    source="torchrun's documentation (fault tolerant start); torch 2.13, static_tcp_rendezvous.py: num_nodes_waiting is always 0",
    reads=BatchScript,
    check=check,
)
