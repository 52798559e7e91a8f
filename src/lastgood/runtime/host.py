"""What of this process and its environment may change its numbers: kept in manifests, compared on resume.

It is asked once, at the start, and must cost nothing there: three tenths of a millisecond, also with torch.
"""

import os
import platform
import sys

from lastgood.core.fingerprint import EDITION, NEWEST_EDITION
from lastgood.core.fingerprint_items import LIBRARIES
from lastgood.runtime.machine import machine_facts
from lastgood.runtime.ports import Framework, Ranks


def fingerprint_of(frameworks: list[Framework], ranks: Ranks) -> dict[str, str]:
    """Versions, machine, number of ranks and threads, switches and variables, as texts; see core.fingerprint_items."""
    facts = {**machine_facts(os.environ), **process_facts(), "ranks": str(ranks.world_size)}
    for framework in frameworks:
        facts |= framework.fingerprint()
    return facts


def process_facts() -> dict[str, str]:
    """Of this interpreter and what it has imported, without frameworks."""
    versions = {name: getattr(sys.modules[name], "__version__", None) for name in LIBRARIES if name in sys.modules}
    return {
        EDITION: NEWEST_EDITION,
        "python": platform.python_version(),
        "lastgood": str(getattr(sys.modules.get("lastgood"), "__version__", "unknown")),
        **{name: str(version) for name, version in versions.items() if version is not None},
    }
