"""LG506: restarts by torchrun that were seen to fail."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.rules.lg503_restarts_without_rendezvous import restarts

_SETTING = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood or _SETTING.encode() in script.source.data:
        return
    for _, launch in script.work:
        torchrun = launch.wrapper("torchrun")
        if torchrun is None or not restarts(torchrun):
            continue
        backend = torchrun.option("--rdzv-backend", "--rdzv_backend")
        if backend == "c10d" or torchrun.option("--standalone") is not None:
            yield Hit(
                span=torchrun.words[0].span,
                message=f"torchrun's own restarts (`--max-restarts={restarts(torchrun)}`) may fail or hang: with torch 2.13 the new "
                "workers often did not find the store of the old ones",
                remedy=f"add `export {_SETTING}=1` above",
            )
            return


RULE = Rule(
    code="LG506",
    name="restart-of-shared-store",
    severity=Severity.NOTE,
    what="torchrun with `--max-restarts`, without TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.",
    why="torchrun shares its own store with the workers. After a restart in place the new workers may meet in the old one, which "
    "is refused or waits for ever; each of the restarts that were to help is then lost time.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
torchrun --standalone --nproc-per-node=8 --max-restarts=3 train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
torchrun --standalone --nproc-per-node=8 --max-restarts=3 train.py --resume
""",
    safe_to_ignore="Your version of torch was seen to restart.",
    source="seen with torch 2.13 and two gloo workers, one of them killed: restarts failed (connection refused) or hung; with the "
    "setting 15 of 15 came up",
    reads=BatchScript,
    check=check,
)
