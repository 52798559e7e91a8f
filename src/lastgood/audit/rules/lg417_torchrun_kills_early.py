"""LG417: torchrun ends its workers before they can have saved."""

from collections.abc import Iterator

from lastgood.audit.batch.limits import in_words
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import early_signal, reached
from lastgood.audit.rule import Context, Hit, Rule, Severity

_PATIENCE_S = 30.0
_ENDING = ("TERM", "INT", "HUP", "QUIT")
_SETTING = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked, write_s = early_signal(script), context.write_s
    if asked is None or write_s is None or write_s <= _PATIENCE_S or script.uses_lastgood:
        return
    if _SETTING.encode() in script.source.data:
        return
    for _, launch, signal in reached(script, asked):
        torchrun = launch.wrapper("torchrun")
        if torchrun is None or torchrun.option("--shutdown-timeout", "--shutdown_timeout") is not None:
            continue
        told = torchrun.option("--signals-to-handle", "--signals_to_handle")
        if signal in _ENDING or (told is not None and signal in told):
            yield Hit(
                span=torchrun.words[0].span,
                message=f"at {signal} torchrun gives its workers 30 s and then kills them, and a save takes {in_words(write_s)}: it "
                "cannot be finished",
                remedy=f"add `--shutdown-timeout={int(write_s) + 60}`, where torchrun has that option, or save at USR1 sent to the "
                "workers themselves",
            )
            return


RULE = Rule(
    code="LG417",
    name="torchrun-kills-early",
    severity=Severity.LOST,
    what="An early signal that torchrun passes on, and a stated save that takes longer than torchrun waits for its workers.",
    why="torchrun sends TERM on to its workers and waits 30 s; what then still runs gets KILL, however much time Slurm leaves. A "
    "save that takes longer is cut off.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@600
srun --kill-on-bad-exit=1 torchrun --standalone --nproc-per-node=8 train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@600
srun --kill-on-bad-exit=1 torchrun --standalone --nproc-per-node=8 --shutdown-timeout=300 train.py --resume
""",
    safe_to_ignore="The workers write at the signal only what takes seconds.",
    source="pytorch#119856; seen with torch 2.13: a worker that needed 40 s after TERM was killed after 30 s",
    reads=BatchScript,
    check=check,
    write_s=120.0,
)
