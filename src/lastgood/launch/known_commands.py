"""What is known of commands that stand between the launcher and the ranks."""

import itertools
import os
from collections.abc import Mapping, Sequence

from lastgood.core.units import duration

TORCHRUN_GRACE_S = 30.0
"""torchrun kills its workers this long after it got SIGTERM (a constant in its source)."""

_RENDEZVOUS_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


_KILL_BAD_EXIT = "SLURM_KILL_BAD_EXIT"


def is_srun(command: Sequence[str]) -> bool:
    """True if a command is srun itself: its ranks are not below the launcher.

    >>> is_srun(["/usr/bin/srun", "-n2", "python", "train.py"]), is_srun(["python", "srun.py"])
    (True, False)
    """
    return os.path.basename(command[0]) == "srun"


def is_torchrun(command: Sequence[str]) -> bool:
    """True if a command is torchrun, or hands over to it (`python -m`, `conda run`, `srun` ...).

    >>> is_torchrun(["conda", "run", "torchrun", "train.py"]), is_torchrun(["python", "torchrun.py"])
    (True, False)
    """
    if any(os.path.basename(word) == "torchrun" for word in command):
        return True
    return any(
        option == "-m" and module in ("torch.distributed.run", "torch.distributed.launch")
        for option, module in itertools.pairwise(command)
    )


def advice(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that the command needs to survive a failure, unless the user has set them.

    With torch 2.13, workers that torchrun restarts after one was killed cannot connect to each other, because
    they meet in a store that the dead generation left; with a store of their own they can. Without
    SLURM_KILL_BAD_EXIT srun lets the other ranks wait for one that was killed, without end.
    """
    found = {}
    if is_torchrun(command) and _RENDEZVOUS_STORE not in environment:
        found[_RENDEZVOUS_STORE] = "1"
    if is_srun(command) and _KILL_BAD_EXIT not in environment:
        found[_KILL_BAD_EXIT] = "1"
    return found


def warning(command: Sequence[str], grace_s: float) -> str:
    """What the user should know before such a command is started; empty if nothing."""
    if is_torchrun(command) and grace_s > TORCHRUN_GRACE_S:
        return (
            f"--grace is {duration(grace_s)}, but torchrun kills its workers {duration(TORCHRUN_GRACE_S)} after a stop "
            "is asked for: a save must be done by then"
        )
    return ""
