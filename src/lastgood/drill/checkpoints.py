"""The checkpoints of a trial, whoever writes them: ours, those of a pattern, those that the launcher has seen."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from lastgood.core.errors import LastgoodError
from lastgood.core.layout import MANIFEST_FILE
from lastgood.core.numbering import Named, free_numbers_in, newest_first, step_in
from lastgood.drill.fault import Saved
from lastgood.launch.findings import find, split_pattern
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.trial.trial import Trial


def checkpoints_of(trial: Trial) -> list[Saved]:
    """Those that are complete as far as names and files tell, newest first; none that cannot be seen."""
    with suppress(OSError):
        if trial.target.checkpoints:
            return _matching(trial)
        return _ours(trial) or _seen_by_launcher(trial)
    return []


def uncommitted(trial: Trial) -> list[str]:
    """Directories of checkpoints of ours that have no manifest yet."""
    with suppress(OSError, LastgoodError):
        return [listed.name for listed in list_checkpoints(open_job(trial.place.job)) if not listed.is_committed]
    return []


def open_files(processes: Sequence[psutil.Process], *, for_writing: bool) -> set[str]:
    """Paths that they have open, to write or to read."""
    found = set()
    for process in processes:
        directory = f"/proc/{process.pid}/fd"
        with suppress(OSError):
            for fd in os.listdir(directory):
                with suppress(OSError, ValueError, IndexError):
                    path = os.readlink(f"{directory}/{fd}")
                    if path.startswith("/") and _is_for_writing(process.pid, fd) == for_writing:
                        found.add(path)
    return found


def _is_for_writing(pid: int, fd: str) -> bool:
    text = Path(f"/proc/{pid}/fdinfo/{fd}").read_text()
    flags = int(text.partition("flags:")[2].split()[0], 8)
    return flags & os.O_ACCMODE != os.O_RDONLY


def _ours(trial: Trial) -> list[Saved]:
    try:
        job = open_job(trial.place.job)
    except LastgoodError:
        return []
    found = []
    for listed in list_checkpoints(job):
        if listed.is_committed and not listed.rejected and not listed.is_set_aside and not listed.is_link:
            path = job.checkpoints / listed.name
            # By its commit: what a start that was killed has left there since is none.
            found.append(Saved(listed.name, listed.step, _newest_change((path / MANIFEST_FILE,)), _files_of(path)))
    return found


def _matching(trial: Trial) -> list[Saved]:
    """By the pattern that the user gives. One that some process has open for writing is not complete."""
    pattern = trial.target.checkpoints_in(trial.place.work)
    fixed = "/".join(split_pattern(pattern)[1])
    matches = {match.open_part: match for match in find(pattern)}
    ordered = newest_first([Named(match.open_part, match.modified) for match in matches.values()])
    being_written = open_files(trial.of_command(), for_writing=True)
    found = []
    for named in ordered:
        path = Path(matches[named.name].path)
        files = _files_of(path)
        if not being_written & {os.path.realpath(file) for file in files}:
            step = step_in(named.name) if free_numbers_in(named.name, fixed) else None
            found.append(Saved(_name_of(path, trial.place.work), step, _newest_change(files), files))
    return found


def _seen_by_launcher(trial: Trial) -> list[Saved]:
    """Of an application whose checkpoints the launcher finds: what its journal says."""
    found: dict[str, Saved] = {}
    for record in trial.records():
        for event in record.events:
            name, step = event.data.get("name"), event.data.get("step")
            if event.kind == "committed" and isinstance(name, str) and isinstance(step, int):
                path = trial.place.work / name
                if path.exists():
                    found[name] = Saved(_name_of(path, trial.place.work), step, event.at, _files_of(path))
    return sorted(found.values(), key=lambda saved: saved.at, reverse=True)


def _files_of(path: Path) -> tuple[Path, ...]:
    if not path.is_dir():
        return (path,)
    return tuple(sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink()))


def _newest_change(files: Sequence[Path]) -> float:
    times = []
    for file in files:
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times, default=0.0)


def _name_of(path: Path, work: Path) -> str:
    return str(path.relative_to(work)) if path.is_relative_to(work) else str(path)
