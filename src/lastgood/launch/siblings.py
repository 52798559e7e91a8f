"""What the other checkpoints of its kind say of one."""

import os

from lastgood.core.numbering import Contents, kind_of, missing_files, step_in
from lastgood.launch.findings import Match
from lastgood.launch.soundness import files_below


def version_of(match: Match) -> tuple[object, ...]:
    """Changes whenever a file of the checkpoint is written. Raises OSError."""
    if match.is_directory:
        return (match.path, *(_stamp(os.path.join(match.path, name)) for name in files_below(match.path)))
    return (match.path, match.modified_ns, match.size)


def incompleteness(match: Match, all_of_them: list[Match]) -> str:
    """A directory that lacks files which most of its kind have was not written to its end. Raises OSError."""
    kind = kind_of(match.open_part)
    others = [m for m in all_of_them if m.is_directory and m.path != match.path and kind_of(m.open_part) == kind]
    missing = missing_files(_contents(match), [_contents(other) for other in others])
    return f"it lacks {', '.join(missing[:3])}, which the others have" if missing else ""


def _contents(match: Match) -> Contents:
    return Contents(step_in(match.open_part), frozenset(files_below(match.path)))


def _stamp(path: str) -> tuple[str, int, int]:
    status = os.stat(path)
    return (path, status.st_mtime_ns, status.st_size)
