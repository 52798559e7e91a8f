"""What of this process's environment may change its numbers: kept in manifests, compared on resume."""

import os
import platform

from lastgood.runtime.ports import Framework, Ranks


def fingerprint_of(frameworks: list[Framework], ranks: Ranks) -> dict[str, str]:
    """Versions, machine, number of ranks and threads, as texts."""
    facts = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "ranks": str(ranks.world_size),
        "hash seed": os.environ.get("PYTHONHASHSEED", "random"),
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
    }
    for framework in frameworks:
        facts |= framework.fingerprint()
    return facts
