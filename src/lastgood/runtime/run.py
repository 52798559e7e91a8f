"""The public face inside a job: `lastgood.Run`."""

import atexit
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lastgood.core import layout
from lastgood.core.errors import UsageError
from lastgood.core.retention import Keep
from lastgood.core.schedule import Every, parse_every
from lastgood.core.units import parse_duration
from lastgood.core.writing import Writing
from lastgood.runtime import adapters
from lastgood.runtime.ending import ExceptionHook
from lastgood.runtime.environment import parse_mtti
from lastgood.runtime.random_state import RandomState
from lastgood.runtime.reading import Reading
from lastgood.runtime.results import OnSaveError
from lastgood.runtime.session import Session
from lastgood.runtime.starting import Starting, Wishes
from lastgood.runtime.state import DATA, PROGRESS, RANDOM, VALUES
from lastgood.runtime.supply import Read


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
        every: when to save: "auto" (as often as loses least time, by what saves cost and how often jobs are
            interrupted; it says what it comes to), a number of steps, a duration such as "10min", or
            `lastgood.Every` for a schedule that is close at first.
        mtti: for "auto", the mean time to interruption of the job, such as "12h"; LASTGOOD_MTTI takes
            precedence. Without either a preset is used, and printed.
        keep: which checkpoints to keep; see `lastgood.Keep`.
        config: hyperparameters, compared on resume. A difference is refused unless its name is in
            `allow_config_change`.
        on_save_error: "warn" carries on loudly until no checkpoint is younger than `unprotected_limit`;
            "stop" stops at once.
        rank_limit: how long to wait for other ranks before giving up with their names.
        read: with several ranks, "each" reads what it needs itself; with "broadcast" what all ranks have in common
            is read once and passed on, which is faster where storage is slower than the network.
        allow_world_size_change: resume with another number of ranks although what belongs to single ranks
            (such as their random state) cannot be taken over. Of what differs between ranks otherwise (the
            statistics of a BatchNorm), rank 0's is taken.
        background: hand the state over to a process beside the job (the keeper), which writes it while the loop
            goes on and finishes if the job dies. With False the loop stands still until a checkpoint is
            committed, and no memory is taken for snapshots.
        overlap: copy the parameters and the state of torch's optimizers for a save while the next step's forward
            and backward pass run; `optimizer.step()` waits for the copy. Right where nothing else changes them:
            a change that is seen costs that save, which is said.
        writing: how gently that process writes; see `lastgood.Writing`.
        stage: a directory on a fast disk of this node. Checkpoints are committed there first, and the keeper
            promotes each from there to the job's directory. For jobs on one node.
        constant: patterns such as "model.base.*" for names of arrays that do not change. Like parameters that
            are not trained, they are written once, and checkpoints refer to them; one that changes all the
            same goes with every checkpoint from then on.
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
        every: int | str | Every = "auto",
        mtti: str | None = None,
        keep: Keep | None = None,
        config: Mapping[str, object] | None = None,
        allow_config_change: Iterable[str] = (),
        random: bool = True,
        on_save_error: OnSaveError = "warn",
        unprotected_limit: str = "2h",
        rank_limit: str = "30min",
        read: Read = "each",
        allow_world_size_change: bool = False,
        background: bool = True,
        overlap: bool = False,
        writing: Writing | None = None,
        stage: str | os.PathLike[str] | None = None,
        constant: Sequence[str] = (),
        fresh: bool = False,
    ) -> None:
        self.step = 0
        """Number of the last step that is done."""
        self.values: dict[str, Any] = {}
        """Plain values that the loop rebinds (a best score, a counter): saved and restored with the rest."""
        self._session: Session | None = None
        self._total: int | None = None
        self._epochs = self._part = 0
        self._is_in_step = self._is_in_batch = self._is_body_running = self._is_in_steps = False
        self._hook = ExceptionHook(self._describe_exception)
        self._hook.install()
        atexit.register(self.close)
        if on_save_error not in ("warn", "stop"):
            raise UsageError(f"on_save_error={on_save_error!r}: 'warn' or 'stop'")
        if read not in ("each", "broadcast"):
            raise UsageError(f"read={read!r}: 'each' or 'broadcast'")
        self._best_by = keep.metric if keep is not None else None
        wishes = Wishes(
            job=job,
            every=parse_every(every),
            mtti=None if mtti is None else parse_mtti(mtti, "mtti="),
            keep=keep or Keep(),
            config=config or {},
            allow_config_change=set(allow_config_change),
            on_save_error=on_save_error,
            unprotected_limit_s=parse_duration(unprotected_limit),
            rank_limit_s=parse_duration(rank_limit),
            read=read,
            allow_world_size_change=allow_world_size_change,
            fresh=fresh,
            background=background,
            overlap=overlap,
            writing=writing or Writing(),
            stage=stage,
            constant=_checked_patterns(constant),
        )
        frameworks = adapters.used_frameworks()
        self._reading = Reading(frameworks, RandomState(frameworks) if random else None)
        try:
            starting = Starting(state, wishes, frameworks, self._internal)
            self._session, self._log = starting.session, starting.log
            internal = starting.resume()
            if internal is not None:
                self._take_over(internal)
                if starting.is_other_world_size:
                    self._reading.note_other_world_size(may_lose_place=allow_world_size_change)
            starting.announce()
        except BaseException:
            # The hook stays: an error of ours that nobody catches still ends the program as it should.
            if self._session is not None:
                self._session.close()
                self._session = None
            raise

    def _take_over(self, internal: dict[str, Any]) -> None:
        progress = internal[PROGRESS]
        self.step = int(progress["step"])
        self.values.update(internal.get(VALUES, {}))
        self._reading.restore(progress["position"], internal.get(DATA), internal.get(RANDOM))

    def steps(self, total: int) -> Iterator[int]:
        """The steps that are left of `total`, numbered from 1: the loop's body does the step it is given.

        Between two steps is a safe point, where the state is saved if that is due. After the last one the
        final state is saved and the job is marked as finished.

        Raises SystemExit (75) when the job has to stop: SIGTERM, SIGUSR1, the time limit. After Ctrl-C the
        code is 130.
        """
        _check_total(total)
        if self.step > total:
            raise _backwards(f"the job has done {self.step} steps already; steps({total})")
        self._total = total
        session = self._begin_loop(is_work_left=self.step < total)
        try:
            self._is_in_steps = True
            while self.step < total:
                self._is_in_step = self._is_body_running = True
                yield self.step + 1
                self._end_step(session)
            session.finish(self.step)
        finally:
            self._is_body_running = self._is_in_steps = False
            session.pause()

    def epochs(self, total: int) -> Iterator[int]:
        """The epochs that are left of `total`, numbered from 1; the first may be partly done.

        What the body does after its batches (evaluation, a scheduler's step) is done again if the job died
        before the next epoch's first save. The final state is saved after the last epoch's body.
        """
        _check_total(total)
        done = max(0, self._reading.position.epoch - 1)
        if done > total:
            raise _backwards(f"the job has done {done} epochs already; epochs({total})")
        self._epochs = total
        session = self._begin_loop(is_work_left=done < total)
        try:
            for epoch in range(done + 1, total + 1):
                if epoch != self._reading.position.epoch:
                    self._reading.begin_epoch(epoch)
                self._part = 0
                self._reading.begin_body()
                yield epoch
                self._settle(session)
                self._reading.begin_epoch(epoch + 1)
                if epoch < total:
                    if self._log.has_new(self._best_by):
                        session.ask_to_save()
                    # A phase of its own, so that ranks agree here however short their steps are.
                    session.at_safe_point(self.step, self._total, "epoch")
            session.finish(self.step, has_changed=done < total)
        finally:
            session.pause()

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches that are left of `loader` in this epoch; each one is a step. One that the body leaves
        with `break` is done, and is the loader's last one in this epoch.

        Inside `epochs`. A DataLoader whose `batch_sampler` is a `ResumableSampler` continues at once; a
        loader with its own `state_dict` is asked to; any other is read again up to the place, with the
        random state of that moment, which gives the same batches at the price of reading them.
        """
        session = self._session
        if session is None or self._reading.position.epoch == 0:
            raise UsageError("run.batches() belongs inside `for epoch in run.epochs(...)`")
        self._settle(session)
        part, self._part = self._part, self._part + 1
        self._guess_total(loader)
        batches = self._reading.open(part, loader)
        if batches is None:
            return
        try:
            for batch in batches:
                self._is_in_step = self._is_in_batch = self._is_body_running = True
                yield batch
                self._end_step(session)
                self._is_in_batch = False
        finally:
            self._is_body_running = False
        self._reading.end_part()

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
        then not done again after a resume). After the batches of an epoch what the body has done since
        then is done again after a resume, so call it before the body changes any state. With several ranks
        all of them must call it, or none.
        """
        session = self._alive()
        if self._is_in_step and self._is_body_running and not step_is_done:
            session.show_life(self.step, phase)
            return
        self._settle(session)
        session.at_safe_point(self.step, self._total, phase, body_follows=self._is_body_left())

    def finish(self) -> None:
        """All work is done, earlier than planned: save, and mark the job as finished. The step whose body
        is under way counts as done."""
        session = self._alive()
        self._settle(session)
        session.finish(self.step)

    def close(self) -> None:
        """Let go of the job: signals, lock, files. Also done at exit; calling it twice is fine."""
        if self._session is not None:
            if not self._is_in_step:
                self._log.end_step(self.step)
            self._session.note_end(self.step, self._total)
            self._session.close()
        self._hook.remove()
        atexit.unregister(self.close)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        line = ""
        if error is not None and self._session is not None:
            # Whether somebody catches it is not known here; if nobody does, the hook says the line.
            self._session.has_ended = True
            line = "" if isinstance(error, SystemExit) else self._describe_exception(error)
        self.close()
        if error is not None:
            self._hook.wait_for(error, line)

    def _begin_loop(self, *, is_work_left: bool) -> Session:
        session = self._alive()
        # A step that an exception left is not done: it is done again.
        self._is_in_step = self._is_in_batch = False
        self._reading.begin_loop()
        session.begin(self.step, self._total, is_work_left=is_work_left)
        return session

    def _end_step(self, session: Session) -> None:
        self._is_body_running = False
        if self._is_in_step:
            self._count_step(session)
        session.at_safe_point(self.step, self._total, body_follows=self._is_body_left())

    def _is_body_left(self) -> bool:
        """True if no step is left, or the last epoch has no batch left, or none that is known of: what its body
        still does belongs to the final state. Where the best are kept, so it is for every epoch: what its body
        still logs is what this step is judged by."""
        if self._is_in_steps:
            return self.step == self._total
        epoch = self._reading.position.epoch
        is_awaited = 0 < epoch <= self._epochs and (epoch == self._epochs or self._best_by is not None)
        return is_awaited and (not self._is_in_batch or self._reading.is_last_batch())

    def _settle(self, session: Session) -> None:
        """Count a step whose body has said that it is done, or was left with `break`."""
        if self._is_in_step:
            self._count_step(session)
        if self._is_in_batch and not self._is_body_running:
            self._is_in_batch = False
            self._reading.end_part()

    def _count_step(self, session: Session) -> None:
        if self.step >= layout.MAX_STEP:
            raise UsageError(f"a job has at most {layout.MAX_STEP} steps")
        self._is_in_step = False
        self.step += 1
        if self._is_in_batch:
            self._reading.advance()
        session.note_step()

    def _internal(self) -> dict[str, object]:
        """Our own entries of the state."""
        entries: dict[str, object] = {
            PROGRESS: {"step": self.step, "position": self._reading.position.capture()},
            VALUES: self.values,
            # Before the random state: a loader may draw from it when it is asked for its own state.
            DATA: self._reading.capture(),
        }
        if (state := self._reading.capture_random()) is not None:
            entries[RANDOM] = state
        return entries

    def _guess_total(self, loader: Iterable[Any]) -> None:
        """How many steps all epochs have, for display, where the loader knows its length."""
        try:
            length = len(loader)  # type: ignore[arg-type]
        except TypeError:
            return
        if self._part == 1:
            position = self._reading.position
            left = self._epochs - position.epoch + 1
            self._total = self.step - position.batch + left * length

    def _describe_exception(self, error: BaseException) -> str:
        if self._session is None:
            return ""
        return self._session.describe_exception(error, self.step)

    def _alive(self) -> Session:
        if self._session is None:
            raise UsageError("this Run was never opened")
        return self._session


def _checked_patterns(patterns: Sequence[str]) -> list[str]:
    if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
        raise UsageError(f"constant={patterns!r}: a list of patterns", remedy='write constant=["model.base.*"]')
    return list(patterns)


def _check_total(total: int) -> None:
    if isinstance(total, bool) or not isinstance(total, int) or total < 0:
        raise UsageError(f"{total!r} is not a number of steps or epochs")


def _backwards(what: str) -> UsageError:
    return UsageError(
        f"{what} would go backwards",
        safe="nothing was changed",
        remedy="ask for more, or use another job directory for a shorter job",
    )
