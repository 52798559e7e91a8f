"""One start of the job on this rank: opened, resumed by the contract, checked, and then announced."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lastgood.core import fingerprint, layout, tree
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.pace import FIRST_SAVE_S, Pace
from lastgood.core.reliability import Mtti
from lastgood.core.retention import Keep
from lastgood.core.schedule import Schedule
from lastgood.core.writing import Writing
from lastgood.runtime import adapters
from lastgood.runtime.agreement import raise_together
from lastgood.runtime.background import Background
from lastgood.runtime.constants import Constants
from lastgood.runtime.environment import Surroundings, read_surroundings
from lastgood.runtime.finding import Home
from lastgood.runtime.host import fingerprint_of
from lastgood.runtime.loading import Program
from lastgood.runtime.opening import OpenedJob, choose_path, open_for
from lastgood.runtime.ports import DeviceCopies, Framework, Ranks, Stepping
from lastgood.runtime.results import OnSaveError
from lastgood.runtime.results import Settings as SaveSettings
from lastgood.runtime.resume import Found, Resumer
from lastgood.runtime.saver import Saver
from lastgood.runtime.session import Facts, Session
from lastgood.runtime.staging import Staging, open_staging
from lastgood.runtime.state import make_entries, parts_of
from lastgood.runtime.supply import Read
from lastgood.runtime.values_log import ValuesLog
from lastgood.store.attempts import Journal
from lastgood.store.record import Records, state_directory


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the program asks for; see `lastgood.Run`."""

    job: str | os.PathLike[str] | None
    every: Schedule
    mtti: Mtti | None
    keep: Keep
    config: Mapping[str, object]
    allow_config_change: set[str]
    on_save_error: OnSaveError
    unprotected_limit_s: float
    rank_limit_s: float
    read: Read
    allow_world_size_change: bool
    fresh: bool
    background: bool
    stage: str | os.PathLike[str] | None
    constant: Sequence[str]
    overlap: bool
    writing: Writing


class Starting:
    """Made in order: the constructor opens the job, `resume` finds and loads, `announce` ends the start."""

    def __init__(
        self,
        state: Mapping[str, object],
        wishes: Wishes,
        frameworks: list[Framework],
        internal: Callable[[], Mapping[str, object]],
    ) -> None:
        self._began = time.monotonic()
        self._wishes = wishes
        self._internal = internal
        self._frameworks = frameworks
        for framework in frameworks:
            framework.shield_helpers()
        surroundings = read_surroundings()
        environment = dict(os.environ)
        self._entries = make_entries(state, frameworks)
        self._config = _plain(wishes.config, frameworks)
        self._ranks = ranks = adapters.find_ranks(wishes.rank_limit_s, environment)
        records = Records(state_directory(environment))
        path = choose_path(wishes.job, surroundings)
        self._opened = opened = open_for(path, surroundings, ranks, records, is_fresh_asked=wishes.fresh)
        journal = Journal(opened.job, opened.attempt)
        self._background = None
        if wishes.background and surroundings.may_use_keeper:
            self._background = _background(opened, surroundings, ranks, journal, frameworks)
        self._staging = self._open_staging()
        self._constants = Constants(
            self._entries.values(), wishes.constant, self._staging.constants_writer(), time.monotonic
        )
        self._saver = Saver(
            opened.job,
            opened.attempt,
            ranks,
            self._entries,
            frameworks,
            SaveSettings(
                keep=wishes.keep,
                writing=wishes.writing,
                on_error=wishes.on_save_error,
                unprotected_limit_s=wishes.unprotected_limit_s,
                limit_s=wishes.rank_limit_s,
                overlap=wishes.overlap,
            ),
            journal,
            self._background,
            self._staging,
            self._constants,
        )
        self.log = ValuesLog(opened.job.attempts / layout.values_file(opened.attempt, ranks.rank))
        self._facts = Facts(self._config, fingerprint_of(frameworks, ranks))
        self.session = Session(
            opened,
            surroundings,
            ranks,
            self._saver,
            self.log,
            _pace(wishes, surroundings),
            self._facts,
            records,
            journal,
            internal,
        )
        lender = self._background.lend if self._background is not None else None
        self._resumer = Resumer(
            opened.job,
            opened.attempt,
            ranks,
            frameworks,
            lender,
            read=wishes.read,
            local_ranks=surroundings.local_ranks,
            stages=self._staging.found,
        )
        self._notes: list[str] = []
        if wishes.overlap and not any(isinstance(part, Stepping) for part in parts_of(self._entries.values())):
            self._notes.append("overlap=True changes nothing: there is no optimizer of torch in the state")
        self._found: Found

    def _open_staging(self) -> Staging:
        wished = self._wishes.stage if self._background is not None else None
        try:
            staging = open_staging(self._opened.job, self._opened.attempt, self._ranks, wished)
        except LastgoodError:
            if self._opened.lock is not None:
                self._opened.lock.close()
            raise
        if self._wishes.stage is not None and wished is None:
            staging.notes.append(f"nothing is staged in {self._wishes.stage}: there is no keeper that would promote it")
        return staging

    @property
    def is_other_world_size(self) -> bool:
        """The checkpoint was saved by another number of ranks."""
        restored = self._found.restored
        return restored is not None and restored.manifest.world_size != self._ranks.world_size

    def resume(self) -> dict[str, Any] | None:
        """Find what to resume from and put it into the program; the entries that are ours are returned, not
        applied. None if the job starts from zero. Raises what `lastgood.Run` does."""
        program = self._program()
        self._found = found = self._resumer.find(self._opened.expectations, self._opened.is_fresh_meant, program)
        if found.start.warning:
            self._notes.append(found.start.warning)
        internal, error = None, None
        try:
            if found.restored is not None:
                manifest = found.restored.manifest
                self._notes += program.config_changes
                self._notes += fingerprint.differences(manifest.fingerprint, self._facts.fingerprint)
                self._notes += [f"read from storage: {problem}" for problem in found.restored.memory_problems]
                internal = program.put(found.restored)
                if found.stage == self._staging.path:
                    self._constants.note_read(found.restored.constants)
                self.log.latest.update(manifest.metrics)
        except LastgoodError as problem:
            error = problem
        raise_together(self._ranks, error, safe="the checkpoint is whole")
        return internal

    def _program(self) -> Program:
        return Program(
            self._entries,
            self._config,
            self._frameworks,
            self._ranks.world_size,
            allow_config_change=self._wishes.allow_config_change,
            allow_world_size_change=self._wishes.allow_world_size_change,
        )

    def announce(self) -> None:
        """The program is ready. A state that cannot be stored is an error now, not after an interval of work."""
        error = None
        try:
            self._saver.capture(self._internal())
        except LastgoodError as problem:
            error = problem
        raise_together(self._ranks, error, safe="nothing was changed")
        self._saver.settle_background()
        if self._found.restored is not None:
            # The state has its full size already.
            self._saver.prepare(self._internal)
        if self._ranks.rank == 0:
            self._staging.tell_left()
        self._notes += self._saver.notes()
        took_s = time.monotonic() - self._began
        self.session.start(self._found, self._notes, took_s, self._staging.clear_left)


def _background(
    opened: OpenedJob, surroundings: Surroundings, ranks: Ranks, journal: Journal, frameworks: list[Framework]
) -> Background:
    home = Home(
        rank=ranks.rank,
        local_ranks=surroundings.local_ranks,
        linger_s=surroundings.linger_s,
        is_keeper_held=surroundings.is_keeper_held,
        environment=dict(os.environ),
    )

    def devices() -> DeviceCopies | None:
        return next((copies for framework in frameworks if (copies := framework.device_copies())), None)

    return Background(opened.job, opened.attempt, home, journal.write, devices)


def _pace(wishes: Wishes, surroundings: Surroundings) -> Pace:
    # What is said from outside is about the machine that the job runs on now; the program travels.
    mtti = surroundings.mtti if surroundings.is_mtti_stated else wishes.mtti or surroundings.mtti
    # Half the limit, so that one save that fails can be made up for.
    most_s = max(wishes.unprotected_limit_s / 2, FIRST_SAVE_S)
    return Pace(wishes.every, mtti, most_s)


def _plain(config: Mapping[str, object], frameworks: list[Framework]) -> dict[str, Any]:
    for name in config:
        if not isinstance(name, str) or name.startswith("$"):
            raise UsageError(f"config: {name!r} cannot name a hyperparameter", remedy="use a text such as 'lr'")
    flat = tree.flatten(dict(config), frameworks, at="config")
    if flat.arrays:
        raise UsageError(
            f"{min(flat.arrays)} is an array, and config holds plain values that are compared on resume",
            remedy="write it as a list, or put it into the state",
        )
    plain: dict[str, Any] = flat.skeleton
    return plain
