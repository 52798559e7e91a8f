"""The directories of one trial, below a root that belongs to the drill or the proof.

<root>/<name>/
  work/         a copy of the directory in which the user stands; the command works here
  job/          of `lastgood run`
  state/        what our launcher remembers between jobs
  heartbeats/   of programs that use our library, where our launcher does not run them
  output.txt    what the command and the launcher printed, all starts
"""

import fnmatch
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import byte_size
from lastgood.store.durable import explained
from lastgood.trial.target import RUN, Target

LEFT_OUT = (".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache")
"""Never copied: no job reads them."""
MOST_COPIED_BYTES = 2 * 1024**3


class Place(msgspec.Struct, frozen=True):
    root: Path
    name: str

    @property
    def path(self) -> Path:
        return self.root / self.name

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def job(self) -> Path:
        return self.path / "job"

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def heartbeats(self) -> Path:
        return self.path / "heartbeats"

    @property
    def output(self) -> Path:
        return self.path / "output.txt"


def make_place(root: Path, name: str, target: Target) -> Place:
    """Make the directories of a trial, which must not exist yet, with a copy of the user's directory.

    Raises UsageError for a directory that is too large to be copied for each trial.
    """
    place = Place(root, name)
    with explained("make the directory of a trial", place.path):
        place.path.mkdir(parents=True)
        place.state.mkdir()
        place.heartbeats.mkdir()
        copy_work(target, place, avoid=root)
    return place


def forget_heartbeats(place: Place) -> None:
    """Those of a start that has ended are no sign of the next one."""
    for file in place.heartbeats.glob("rank-*"):
        file.unlink(missing_ok=True)


def copy_work(target: Target, place: Place, avoid: Path) -> None:
    """Copy the user's directory into the trial's. `avoid`: where the trials are, if that is inside of it."""
    files = list(_files(target.directory, (*LEFT_OUT, *target.leave_out), avoid.resolve()))
    total = sum(os.lstat(file).st_size for file in files)
    if total > MOST_COPIED_BYTES:
        largest = sorted(files, key=lambda file: -os.lstat(file).st_size)[:3]
        names = ", ".join(
            f"{file.relative_to(target.directory)} ({byte_size(os.lstat(file).st_size)})" for file in largest
        )
        raise UsageError(
            f"{target.directory}: {byte_size(total)} would be copied for each trial; the largest are {names}",
            safe="nothing was started",
            remedy="name what is not needed with --leave-out, or large inputs that are only read by their absolute path",
        )
    _refuse_own_checkpoints(files, target)
    place.work.mkdir(exist_ok=True)
    for file in files:
        to = place.work / file.relative_to(target.directory)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.is_symlink():
            to.symlink_to(_leads_to(file, target))
        elif file.is_dir():
            # Empty: programs write into it, and some do not make it.
            to.mkdir(exist_ok=True)
        else:
            shutil.copy2(file, to)


def links_out(target: Target) -> list[str]:
    """Links of the user's directory, as "link -> where it leads", through which a trial can change what is not copied."""
    files = _files(target.directory, (*LEFT_OUT, *target.leave_out), Path())
    links = [(file, _leads_to(file, target)) for file in files if file.is_symlink()]
    return [f"{link.relative_to(target.directory)} -> {to}" for link, to in links if os.path.isabs(to)]


def _refuse_own_checkpoints(files: Sequence[Path], target: Target) -> None:
    """Behind such a link a trial would go on from the user's checkpoints, and delete them in its turn."""
    pattern = target.directory / target.checkpoints.replace(RUN, ".")
    for link in {pattern, *pattern.parents}.intersection(file for file in files if file.is_symlink()):
        if target.checkpoints and os.path.isabs(_leads_to(link, target)):
            raise UsageError(
                f"{link} leads out of the directory that is copied: the checkpoints would be your own",
                safe="nothing was started",
                remedy=f"--leave-out {link.name}: the command then makes its own",
            )


def clear(place: Place, target: Target) -> None:
    """Take away all that the trial has written: its job, its memory of it, and its files."""
    for path in (place.job, place.work, place.state):
        shutil.rmtree(path, ignore_errors=True)
    with explained("make the directory of a trial anew", place.path):
        place.state.mkdir()
        copy_work(target, place, avoid=place.root)


def remove(path: Path) -> None:
    """Take the directory of a trial, or of several, away. What cannot be removed stays."""
    shutil.rmtree(path, ignore_errors=True)


def keep_copy(place: Place, to: Path) -> None:
    """A copy of the job, its memory and its files, as they are now. Nobody works there meanwhile."""
    for path in (place.work, place.job, place.state):
        if path.exists():
            shutil.copytree(path, to / path.name, symlinks=True)


def restore_copy(kept: Path, place: Place) -> None:
    """Put back what `keep_copy` has taken, in place of what is there. The paths stay the same."""
    for path in (place.work, place.job, place.state):
        shutil.rmtree(path, ignore_errors=True)
        if (kept / path.name).exists():
            shutil.copytree(kept / path.name, path, symlinks=True)


def _files(directory: Path, left_out: Sequence[str], avoid: Path) -> Iterator[Path]:
    """Files and links, and directories that are empty."""
    for at, directories, names in os.walk(directory):
        here = Path(at)
        directories[:] = [d for d in directories if not _matches(d, left_out) and (here / d).resolve() != avoid]
        # Where they lead is not walked through.
        yield from (here / d for d in directories if (here / d).is_symlink())
        for name in names:
            if not _matches(name, left_out) and ((here / name).is_file() or (here / name).is_symlink()):
                yield here / name
        if not directories and not names and here != directory:
            yield here


def _leads_to(link: Path, target: Target) -> str:
    """What a copy of the link says: the same, if that is copied, too; otherwise where the link leads, as an absolute path."""
    told = os.readlink(link)
    there = Path(os.path.normpath(link.parent / told))
    inside = there.relative_to(target.directory).parts if there.is_relative_to(target.directory) else None
    is_copied = inside is not None and not any(_matches(part, LEFT_OUT) for part in inside)
    return told if os.path.isabs(told) or is_copied else str(there)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
