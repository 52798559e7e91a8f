"""What the environments of two runs have not in common, and what in one of them lets numbers differ from run to run."""

from collections.abc import Mapping
from contextlib import suppress

from lastgood.core.errors import LastgoodError
from lastgood.core.fingerprint import differences
from lastgood.core.fingerprint_items import item
from lastgood.prove.shown import Shown
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint

_UNSTEADY = {
    "torch.deterministic": "off",
    "cudnn.benchmark": "on",
    "cudnn.deterministic": "off",
    "OMP_DYNAMIC": "true",
    "gromacs.reprod": "off",
}
"""Values with which the same program may give other numbers each time it runs."""


def facts_of(shown: Shown) -> dict[int, dict[str, str]]:
    """What each attempt of a job of ours has written down of its environment, by its number."""
    found: dict[int, dict[str, str]] = {}
    with suppress(LastgoodError, OSError):
        job = open_job(shown.place.job)
        for listed in list_checkpoints(job):
            if listed.is_committed and not listed.is_link and listed.attempt not in found:
                with suppress(LastgoodError, OSError):
                    found[listed.attempt] = dict(open_checkpoint(job, listed.name).manifest.fingerprint)
    return found


def changes(first: Shown, run: Shown) -> list[str]:
    """What differs between the undisturbed run's environment and each attempt's of the other, and can change numbers."""
    reference = next(iter(facts_of(first).values()), {})
    found = [
        f"attempt {number}: {line}"
        for number, facts in sorted(facts_of(run).items())
        for line in differences(reference, facts)
    ]
    return found if reference else []


def unsteady(shown: Shown) -> list[str]:
    """What in the environment of a run lets numbers differ from run to run, by what it has written down."""
    facts: Mapping[str, str] = next(iter(facts_of(shown).values()), {})
    return [
        f"{name} is {value}: {item(name).why}"
        for name, value in _UNSTEADY.items()
        if facts.get(name, "").lower() == value
    ]
