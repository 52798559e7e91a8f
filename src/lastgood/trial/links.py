"""Links of the user's directory that lead out of it: what a trial writes through them is written into the user's own files."""

import os
from pathlib import Path

from lastgood.core.errors import UsageError
from lastgood.trial.place import links_out
from lastgood.trial.target import Target


def refuse_links_out(target: Target, is_allowed: bool) -> None:
    """Raises UsageError for a link to a directory that is not copied and can be written into: a trial would resume from the
    checkpoints that are there, and overwrite them. `is_allowed`: the user has said that this is meant."""
    found = [] if is_allowed else [link for link in _writable(target) if _leads_to(link).is_dir()]
    if found:
        name = Path(found[0].partition(" -> ")[0]).name
        raise UsageError(
            f"{_told(found)}: not copied, and every run would write into it, or resume from what is there",
            safe="nothing was started",
            remedy=f"--leave-out {name}: the command then makes its own; or --through-links, if it is only read, or meant",
        )


def told_links_out(target: Target) -> str:
    """The links through which a trial can change what is not copied; empty if there are none."""
    found = _writable(target)
    return f"what the job writes through these links changes your own files: {_told(found)}" if found else ""


def _told(links: list[str]) -> str:
    more = f" and {len(links) - 3} more" if len(links) > 3 else ""
    return f"{', '.join(links[:3])}{more}"


def _writable(target: Target) -> list[str]:
    return [link for link in links_out(target) if os.access(_leads_to(link), os.W_OK)]


def _leads_to(link: str) -> Path:
    return Path(link.partition(" -> ")[2])
