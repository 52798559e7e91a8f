"""An OpenFOAM case on disk: its control dictionary, and the times that its ranks have written."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lastgood.apps import openfoam_control as control
from lastgood.apps.openfoam_files import (
    STAMP,
    files_in,
    problem_at_ends,
    problem_inside,
    read_stamp,
    times_in,
)
from lastgood.core.errors import UsageError
from lastgood.launch.ports import Found
from lastgood.store import durable

_EARLIER = 3
"""How many earlier times tell what belongs to a time: some write more files now and then."""
_ROUNDED = 1e-3
"""How much a directory's name may differ from the time that it stands for: it has as many digits as the case says."""
_BASIC = frozenset({"U", "p", "p_rgh", "T"})
"""Fields that a solver writes where it began with them; of others it may leave some alone."""
_RANK = re.compile(r"processor\d+", re.ASCII)
_COLLATED = re.compile(r"processors\d+(?:_\d+-\d+)?", re.ASCII)
_BACKUP = ".before-lastgood"
_DEFAULTS = {
    "startFrom": "latestTime",
    "startTime": "0",
    "stopAt": "endTime",
    "writeControl": "timeStep",
    "purgeWrite": "0",
    "writeFormat": "ascii",
    "writePrecision": "6",
}


class Settings(msgspec.Struct, frozen=True):
    """What the control dictionary says, with all that it includes."""

    text: str
    path: str

    def word(self, key: str, inside: str = "") -> str:
        return control.value_of(self.text, key, inside) or _DEFAULTS.get(key, "")

    def number(self, key: str) -> float:
        """Raises UsageError."""
        given = self.word(key)
        try:
            return float(given)
        except ValueError:
            raise UsageError(
                f"{self.path}: {key} is {f'`{given}`' if given else 'not there'}, which is no number that can be read here",
                safe="nothing was started",
                remedy=f"write `{key} NUMBER;`, or put OpenFOAM's foamDictionary into PATH, which works out macros",
            ) from None


class Case:
    """The directory of a case, and where in it the ranks of a parallel run write."""

    def __init__(self, directory: str, *, is_parallel: bool, is_collated: bool = False) -> None:
        """Raises UsageError where there is no case."""
        self._directory = directory
        self.control_path = self.in_case(os.path.join("system", "controlDict"))
        self._settings: tuple[tuple[int, int], Settings] | None = None
        self._is_parallel = is_parallel
        self._is_collated = is_collated
        if not os.path.isfile(self.control_path):
            raise UsageError(
                f"{os.path.abspath(directory)} is no OpenFOAM case: it has no system/controlDict",
                safe="nothing was started",
                remedy="start it in the directory of the case, or name that: SOLVER -case DIR",
            )

    def check_ranks(self) -> None:
        """Raises UsageError where a case was not decomposed for a parallel run."""
        if not self.roots():
            raise UsageError(
                f"the command has -parallel, and {os.path.abspath(self._directory)} has no processor directories",
                safe="nothing was started",
                remedy="decompose the case first: decomposePar",
            )

    def in_case(self, name: str) -> str:
        return os.path.join(self._directory, name) if self._directory != "." else name

    def roots(self) -> list[str]:
        """Where times are written: the case itself, or each rank's directory."""
        if not self._is_parallel:
            return [self._directory]
        names = os.listdir(self._directory)
        of_ranks = [name for name in names if _RANK.fullmatch(name)]
        collated = [name for name in names if _COLLATED.fullmatch(name)]
        chosen = collated if self._is_collated or not of_ranks else of_ranks
        return [self.in_case(name) for name in sorted(chosen, key=lambda name: (len(name), name))]

    def settings(self) -> Settings:
        """What it says now: people edit it while a solver runs. Raises OSError."""
        status = os.stat(self.control_path)
        version = (status.st_mtime_ns, status.st_size)
        if self._settings is None or self._settings[0] != version:
            text = self._text()
            if not control.is_whole_in_text(text):
                text = control.expanded(self.control_path, self._directory) or text
            self._settings = (version, Settings(text, self.control_path))
        return self._settings[1]

    def _text(self) -> str:
        return Path(self.control_path).read_bytes().decode("latin-1")

    def edit(self, changes: Sequence[tuple[str, str, str]]) -> str:
        """Set (key, value, dictionary that it is in) in the control dictionary, which is replaced at once or not at all; where
        its text before is kept, or an empty text if nothing had to change. Raises OSError."""
        before = self._text()
        after = before
        for key, value, inside in changes:
            if self.settings().word(key, inside) != value:
                after = control.with_value(after, key, value, inside)
        if after == before:
            return ""
        kept = self._keep(before.encode("latin-1"))
        # A link stays one.
        real = Path(os.path.realpath(self.control_path))
        with durable.NewFile(real, os.urandom(8).hex()) as new:
            new.write(after.encode("latin-1"))
            os.fchmod(new.fileno(), os.stat(real).st_mode & 0o7777)
            new.commit()
        return kept

    def _keep(self, text: bytes) -> str:
        for number in range(1, 1000):
            path = Path(self.control_path + _BACKUP + (f"-{number}" if number > 1 else ""))
            if durable.create_file(path, text) or path.read_bytes() == text:
                return os.fspath(path)
        raise FileExistsError(f"{self.control_path}{_BACKUP}-*")

    def check_start_besides(self, founds: Sequence[Found]) -> None:
        """Raises UsageError where nothing would be left to begin from if these were put aside."""
        leaving = {os.path.basename(found.path) for found in founds}
        if leaving and not any(times_in(root).keys() - leaving for root in self.roots()):
            raise UsageError(
                f"{os.path.abspath(self._directory)} would have no time left to begin from: "
                f"{', '.join(sorted(leaving, key=float)[:4])} would be put aside, and there is no older one",
                safe="nothing was changed",
                remedy="bring the first time back (0, or what startTime names; decomposePar for ranks), or let startTime "
                "name the one to begin with",
            )

    def _roots_with(self, name: str, roots: Sequence[str]) -> list[str]:
        return [root for root in roots if os.path.isdir(os.path.join(root, name))]

    def _times(self, roots: Sequence[str]) -> list[tuple[float, str]]:
        """All times behind the one that the case begins with, the newest first."""
        known = {name: value for root in roots for name, value in times_in(root).items()}
        times = sorted(((value, name) for name, value in known.items()), reverse=True)
        settings = self.settings()
        is_first = settings.word("startFrom") == "firstTime"
        start = min((value for value, _ in times), default=0.0) if is_first else settings.number("startTime")
        if times and not any(value <= start for value, _ in times):
            # A case that was decomposed at a later time begins with that one: no solver has put its mark there.
            oldest = times[-1][1]
            if all(read_stamp(os.path.join(root, oldest)) is None for root in self._roots_with(oldest, roots)):
                start = times[-1][0]
        return [(value, name) for value, name in times if value > start]

    def checkpoints(self) -> list[Found]:
        """The newest first, looked at up to the first that is whole."""
        roots = self.roots()
        times = self._times(roots)
        founds: list[Found] = []
        is_known = False
        for place, (value, name) in enumerate(times):
            parts = [os.path.normpath(os.path.join(root, name)) for root in self._roots_with(name, roots)]
            if not parts:
                # The solver has taken it away meanwhile (purgeWrite).
                continue
            problem, size = "", 0
            try:
                stamp = read_stamp(parts[0])
                if not is_known:
                    problem = self._problem(name, [earlier for _, earlier in times[place + 1 :]], roots)
                    size = sum(os.stat(path).st_size for part in parts for path in files_in(part).values())
                at = os.stat(parts[0]).st_mtime
            except FileNotFoundError as error:
                if not os.path.isdir(parts[0]):
                    continue
                stamp, problem, at = None, f"{error.filename} cannot be opened", os.stat(parts[0]).st_mtime
            if not problem and stamp is not None and abs(stamp.value - value) > _ROUNDED * abs(value):
                problem = f"{STAMP} says {stamp.value:g}"
            is_known = is_known or not problem
            step = (
                stamp.index if stamp is not None else max(round(value / (self.settings().number("deltaT") or 1.0)), 0)
            )
            # Only the first write of all leaves nothing else behind when it is cut off.
            is_alone = len(times) == 1
            founds.append(Found(parts[0], step, at, size, problem, f"t = {name}", tuple(parts), is_alone))
        return founds

    def _problem(self, name: str, earlier: Sequence[str], roots: Sequence[str]) -> str:
        """What a quick look finds: what is missing, and what has no end."""
        for root in roots:
            directory = os.path.join(root, name)
            where = f" in {os.path.basename(root)}" if len(roots) > 1 else ""
            if not os.path.isdir(directory):
                return f"it is not there{where}"
            files = files_in(directory)
            expected = self._expected(root, earlier)
            for missing in sorted(expected - files.keys()):
                return f"{missing} is missing{where}"
            for inner, path in sorted(files.items()):
                if problem := problem_at_ends(path, is_expected=inner in expected):
                    return f"{inner} {problem}{where}"
        return ""

    def _expected(self, root: str, earlier: Sequence[str]) -> set[str]:
        """What has to be there: what all of the last times before have, and for the first one what it cannot be without."""
        known: list[set[str]] = []
        for name in earlier:
            directory = os.path.join(root, name)
            if len(known) == _EARLIER or not os.path.isdir(directory):
                continue
            inner = set(files_in(directory))
            if STAMP in inner:
                known.append(inner)
        if known:
            # Clouds of parcels come and go.
            return {inner for inner in set.intersection(*known) if not inner.startswith("lagrangian")}
        begun = min(times_in(root).items(), key=lambda item: item[1], default=None)
        first = set() if begun is None else set(files_in(os.path.join(root, begun[0]))) & _BASIC
        return {STAMP, *first}

    def problem_of(self, found: Found) -> str:
        """After a look at all of it."""
        roots = self.roots()
        names = [name for _, name in self._times(roots)]
        name = os.path.basename(found.path)
        if problem := self._problem(name, names[names.index(name) + 1 :] if name in names else [], roots):
            return problem
        stamps = [read_stamp(part) for part in found.parts]
        if len({stamp.index if stamp is not None else None for stamp in stamps}) > 1:
            return "its ranks are at different steps"
        if None in stamps:
            return f"{STAMP} does not say which time it is"
        for part in found.parts:
            for inner, path in sorted(files_in(part).items()):
                if problem := problem_inside(path):
                    return f"{inner} {problem}" + (f" ({part})" if len(found.parts) > 1 else "")
        return ""
