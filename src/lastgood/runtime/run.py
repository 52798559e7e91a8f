"""The public face inside a job: `lastgood.Run`."""

import atexit
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lastgood.core import fingerprint, layout, tree
from lastgood.core.errors import UsageError
from lastgood.core.retention import Keep
from lastgood.core.schedule import parse_every
from lastgood.core.units import parse_duration
from lastgood.runtime import adapters
from lastgood.runtime.ending import ExceptionHook
from lastgood.runtime.environment import read_surroundings
from lastgood.runtime.host import fingerprint_of
from lastgood.runtime.loading import load, refuse_changed_config
from lastgood.runtime.opening import choose_path, open_for
from lastgood.runtime.position import Position, RandomState, has_state, loader_generators, open_loader, sampler_of
from lastgood.runtime.resume import Resumer
from lastgood.runtime.saver import OnSaveError, Saver
from lastgood.runtime.session import Facts, Session
from lastgood.runtime.state import PROGRESS, RANDOM, VALUES, make_entries
from lastgood.runtime.values_log import ValuesLog
from lastgood.store.record import Records, state_directory
from lastgood.store.sweep import Retention


class Run:
    """Keeps a job's state safe: resumes it when made, saves it while a loop runs.

        run = lastgood.Run({"model": model, "optimizer": optimizer}, job="runs/first")
        for step in run.steps(10_000):
            loss = train_step(model, optimizer)
            run.log(loss=loss)

    Making one claims the next attempt of the job, finds the newest checkpoint that passes its checks, and
    restores it in place. What it found is printed; a directory that should hold a checkpoint and yields
    none is refused (StartRefusedError), never taken for a new job.

    `state` maps names to what must survive: anything with `state_dict`/`load_state_dict`; NumPy arrays and
    torch tensors (restored in place); generators of random numbers; a pair of functions `(save, load)`;
    mappings and sequences of these. Plain values that the loop rebinds live in `run.values`. The global
    random state of Python, NumPy and torch is included, unless `random=False`.

    Args:
        job: the job's directory. A launcher's `--job` takes precedence.
        every: when to save: a number of steps, or a duration such as "10min".
        keep: which checkpoints to keep; see `lastgood.Keep`.
        config: hyperparameters, compared on resume. A difference is refused unless its name is in
            `allow_config_change`.
        on_save_error: "warn" carries on loudly until no checkpoint is younger than `unprotected_limit`;
            "stop" stops at once.
        rank_limit: how long to wait for other ranks before giving up with their names.
        allow_world_size_change: resume with another number of ranks although what belongs to single ranks
            (such as their random state) cannot be taken over.
        fresh: start anew although there are checkpoints; they are set aside, not deleted.

    Raises:
        StartRefusedError, StateMismatchError, ConfigChangedError, JobBusyError, UsageError,
        UnstorableError, StorageError, PermissionDeniedError, FormatVersionError: see their exit codes.
        Uncaught, each ends the program with its message and its exit code, without a traceback.
    """

    def __init__(
        self,
        state: Mapping[str, object],
        *,
        job: str | os.PathLike[str] | None = None,
        every: int | str = "10min",
        keep: Keep | None = None,
        config: Mapping[str, object] | None = None,
        allow_config_change: Iterable[str] = (),
        random: bool = True,
        on_save_error: OnSaveError = "warn",
        unprotected_limit: str = "2h",
        rank_limit: str = "30min",
        allow_world_size_change: bool = False,
        fresh: bool = False,
    ) -> None:
        if on_save_error not in ("warn", "stop"):
            raise UsageError(f"on_save_error={on_save_error!r}: 'warn' or 'stop'")
        began = time.monotonic()
        self._hook = ExceptionHook(self._describe_exception)
        self._hook.install()
        self.step = 0
        """Number of the last step that is done."""
        self.values: dict[str, Any] = {}
        """Plain values that the loop rebinds (a best score, a counter): saved and restored with the rest."""
        self._session: Session | None = None
        self._total: int | None = None
        self._part = 0
        self._is_in_step = False
        self._is_in_batch = False
        self._epochs = 0
        self._loader: object = None
        self._position = Position()
        self._restored_random: Any = None

        schedule = parse_every(every)
        surroundings = read_surroundings()
        is_fresh_meant = fresh or surroundings.is_fresh_meant
        self._frameworks = adapters.used_frameworks()
        self._random = RandomState(self._frameworks) if random else None
        entries = make_entries(state, self._frameworks)
        plain_config = tree.flatten(dict(config or {}), self._frameworks, at="config").skeleton
        ranks = adapters.find_ranks(parse_duration(rank_limit), dict(os.environ))
        records = Records(state_directory(dict(os.environ)))
        opened = open_for(choose_path(job, surroundings), surroundings, ranks, records, is_fresh_meant=is_fresh_meant)
        retention = Retention(opened.job, keep or Keep(), opened.attempt)
        saver = Saver(
            opened.job,
            opened.attempt,
            ranks,
            entries,
            self._frameworks,
            retention,
            on_error=on_save_error,
            unprotected_limit_s=parse_duration(unprotected_limit),
        )
        self._log = ValuesLog(opened.job.attempts / layout.values_file(opened.attempt, ranks.rank), self._frameworks)
        facts = Facts(plain_config, fingerprint_of(self._frameworks, ranks))
        self._session = Session(opened, surroundings, ranks, saver, self._log, schedule, facts, records, self._internal)
        atexit.register(self.close)

        found = Resumer(opened.job, opened.attempt, ranks, self._frameworks).find(opened.expectations, is_fresh_meant)
        notes = [found.start.warning] if found.start.warning else []
        if found.restored is not None:
            notes += refuse_changed_config(found.restored.manifest, plain_config, set(allow_config_change))
            notes += fingerprint.differences(found.restored.manifest.fingerprint, facts.fingerprint)
            self._take_over(load(entries, found.restored, ranks, allow_world_size_change=allow_world_size_change))
        # A state that cannot be stored is an error now, not after the first interval of work.
        saver.capture(self._internal())
        self._session.start(found, notes, time.monotonic() - began)

    def _take_over(self, internal: dict[str, Any]) -> None:
        progress = internal[PROGRESS]
        self.step = int(progress["step"])
        self._position.restore(progress["position"])
        self.values.update(internal.get(VALUES, {}))
        if self._random is not None and internal.get(RANDOM) is not None:
            self._restored_random = internal[RANDOM]
            self._random.restore(self._restored_random, [])

    def steps(self, total: int) -> Iterator[int]:
        """The steps that are left of `total`, numbered from 1: the loop's body does the step it is given.

        Between two steps is a safe point, where the state is saved if that is due. After the last one the
        final state is saved and the job is marked as finished.

        Raises SystemExit (75) when the job has to stop: SIGTERM, SIGUSR1, the time limit.
        """
        _check_total(total)
        if self.step > total:
            raise UsageError(
                f"the job has done {self.step} steps already; steps({total}) would go backwards",
                safe="nothing was changed",
                remedy="ask for more steps, or use another job directory for a shorter job",
            )
        self._total = total
        session = self._begin_loop()
        try:
            while self.step < total:
                self._is_in_step = True
                yield self.step + 1
                self._end_step(session)
            session.finish(self.step)
        finally:
            session.pause()

    def epochs(self, total: int) -> Iterator[int]:
        """The epochs that are left of `total`, numbered from 1; the first may be partly done.

        What the body does after its batches (evaluation, a scheduler's step) is done again if the job died
        before the next epoch's first save.
        """
        _check_total(total)
        self._epochs = total
        session = self._begin_loop()
        try:
            for epoch in range(max(1, self._position.epoch), total + 1):
                if epoch != self._position.epoch:
                    self._position.begin_epoch(epoch)
                self._part = 0
                yield epoch
                self._position.begin_epoch(epoch + 1)
                if epoch < total:
                    session.at_safe_point(self.step, self._total)
            session.finish(self.step)
        finally:
            session.pause()

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches that are left of `loader` in this epoch; each one is a step.

        Inside `epochs`. A DataLoader whose `batch_sampler` is a `ResumableSampler` continues at once; a
        loader with its own `state_dict` is asked to; any other is read again up to the place, with the
        random state of that moment, which gives the same batches at the price of reading them.
        """
        session = self._session
        if session is None or self._position.epoch == 0:
            raise UsageError("run.batches() belongs inside `for epoch in run.epochs(...)`")
        part, self._part = self._part, self._part + 1
        if part < self._position.part:
            return
        if part > self._position.part:
            self._position.begin_part(part)
        self._guess_total(loader)
        try:
            for batch in self._open(loader):
                self._is_in_step = self._is_in_batch = True
                yield batch
                self._end_step(session)
        finally:
            self._is_in_batch = False

    def _open(self, loader: Iterable[Any]) -> Iterator[Any]:
        self._loader = loader
        if self._random is None:
            return open_loader(loader, self._position)
        generators = loader_generators(loader, self._frameworks)
        if self._restored_random is None or self._position.at_open is None:
            self._position.at_open = self._random.capture(generators)
            return open_loader(loader, self._position)
        # Opening draws from the generators, as it did when this epoch began; what was drawn since then is
        # in the state that is put back afterwards.
        self._random.restore(self._position.at_open, generators)
        iterator = open_loader(loader, self._position)
        self._random.restore(self._restored_random, generators)
        self._restored_random = None
        return iterator

    def log(self, **values: object) -> None:
        """Record values of this step, exactly, for comparison and for keeping the best checkpoints.

        Numbers, texts, booleans; zero-dimensional arrays and tensors count as their number.
        """
        self._log.add(values)

    def save(self) -> None:
        """Ask for a save at the next safe point."""
        self._alive().ask_to_save()

    def safe_point(self, phase: str, *, step_is_done: bool = False) -> None:
        """In a long phase outside the steps: save or stop here if that is due. `phase` is shown to people.

        Inside a step's body the state is half changed, and this only shows that the job is alive, unless
        `step_is_done` says that the body has finished its step (what follows, such as an evaluation, is
        then not done again after a resume). With several ranks all of them must call it, or none.
        """
        session = self._alive()
        if self._is_in_step and not step_is_done:
            session.show_life(self.step, phase)
            return
        if self._is_in_step:
            self._is_in_step = False
            self._count_step(session)
        session.at_safe_point(self.step, self._total, phase)

    def finish(self) -> None:
        """All work is done, earlier than planned: save, and mark the job as finished. The step whose body
        is under way counts as done."""
        session = self._alive()
        if self._is_in_step:
            self._is_in_step = False
            self._count_step(session)
        session.finish(self.step)

    def close(self) -> None:
        """Let go of the job: signals, lock, files. Also done at exit; calling it twice is fine."""
        if self._session is not None:
            self._session.close()
        self._hook.remove()
        atexit.unregister(self.close)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _begin_loop(self) -> Session:
        session = self._alive()
        self._is_in_step = False
        if self._restored_random is not None and self._random is not None:
            # What ran since the restore may have drawn from the generators.
            self._random.restore(self._restored_random, [])
        session.begin(self.step, self._total)
        return session

    def _end_step(self, session: Session) -> None:
        if self._is_in_step:
            self._is_in_step = False
            self._count_step(session)
            session.at_safe_point(self.step, self._total)

    def _count_step(self, session: Session) -> None:
        if self.step >= layout.MAX_STEP:
            raise UsageError(f"a job has at most {layout.MAX_STEP} steps")
        self.step += 1
        if self._is_in_batch:
            self._position.advance(sampler_of(self._loader))
        session.note_step()

    def _internal(self) -> dict[str, object]:
        """Our own entries of the state."""
        loader = self._loader
        if loader is not None and sampler_of(loader) is None and has_state(loader):
            self._position.loader = loader.state_dict()  # type: ignore[attr-defined]
        entries: dict[str, object] = {
            PROGRESS: {"step": self.step, "position": self._position.capture()},
            VALUES: self.values,
        }
        if self._random is not None:
            entries[RANDOM] = self._random.capture(loader_generators(loader, self._frameworks))
        return entries

    def _guess_total(self, loader: Iterable[Any]) -> None:
        """How many steps all epochs have, for display, where the loader knows its length."""
        try:
            length = len(loader)  # type: ignore[arg-type]
        except TypeError:
            return
        if self._part == 1:
            left = self._epochs - self._position.epoch + 1
            self._total = self.step - self._position.batch + left * length

    def _describe_exception(self, error: BaseException) -> str:
        if self._session is None:
            return "the program raised before its job was open"
        return self._session.describe_exception(error, self.step)

    def _alive(self) -> Session:
        if self._session is None:
            raise UsageError("this Run was never opened")
        return self._session


def _check_total(total: int) -> None:
    if isinstance(total, bool) or not isinstance(total, int) or total < 0:
        raise UsageError(f"{total!r} is not a number of steps or epochs")
