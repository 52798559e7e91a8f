"""One attempt of the job on this rank: what happens at each safe point, until it finishes or stops."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import msgspec

from lastgood.core.errors import EXIT_INTERRUPTED, EXIT_SAVED_RUN_AGAIN, LastgoodError, StorageError, UsageError
from lastgood.core.interval_choice import SaveCost
from lastgood.core.pace import Pace
from lastgood.runtime.cadence import Cadence
from lastgood.runtime.children import disown_in_children
from lastgood.runtime.environment import Surroundings
from lastgood.runtime.heartbeats import HeartbeatWriter
from lastgood.runtime.news import News
from lastgood.runtime.opening import OpenedJob
from lastgood.runtime.ports import Ranks
from lastgood.runtime.results import Failed, Result, Saved
from lastgood.runtime.resume import Found
from lastgood.runtime.saver import Saver
from lastgood.runtime.signals import SignalFlags
from lastgood.runtime.stopping import Agreed, StopWatch
from lastgood.runtime.talk import ProgressDisplay, describe_start, say
from lastgood.runtime.values_log import ValuesLog
from lastgood.store import durable
from lastgood.store.attempts import Journal, check_fence
from lastgood.store.record import RECORD_S, Records


class Facts(msgspec.Struct, frozen=True):
    """What every manifest of this attempt says."""

    config: dict[str, Any]
    fingerprint: dict[str, str]


class Session:
    """Saves, stops and reports at safe points. Knows nothing of loops: it is told which step is done."""

    def __init__(
        self,
        opened: OpenedJob,
        surroundings: Surroundings,
        ranks: Ranks,
        saver: Saver,
        log: ValuesLog,
        pace: Pace,
        facts: Facts,
        records: Records,
        journal: Journal,
        internal: Callable[[], Mapping[str, object]],
    ) -> None:
        self._opened = opened
        self._ranks = ranks
        self._saver = saver
        self._log = log
        self._facts = facts
        self._records = records
        self._recorded_at = float("-inf")
        self._internal = internal
        self._is_leader = ranks.rank == 0
        self._cadence = Cadence()
        self._signals = SignalFlags()
        self._watch = StopWatch(surroundings, self._signals, pace, is_leader=self._is_leader)
        self._is_launched = surroundings.is_launched
        self._display = ProgressDisplay(is_shown=self._is_leader and not self._is_launched)
        self.journal = journal
        self.heart = HeartbeatWriter(surroundings.heartbeats, ranks.rank)
        self.saved_step = 0
        """Newest step that is known to be committed, or the step that the attempt began from."""
        self._step = self._began_at = 0
        self._metrics: dict[str, float] = {}
        self._taken_step = 0
        """Newest step of which a snapshot was taken, whatever becomes of it."""
        self._committed_step = -1
        """Newest step that this attempt has committed."""
        self._news = News(journal, is_told=self._is_leader)
        self._failure: Failed | None = None
        """The newest save, if it has failed."""
        self._is_put_off = False
        self._is_under_way = False
        self._has_begun = False
        self.has_ended = False
        """How the attempt ended is known: it has finished, stopped or raised."""
        self._has_complained = False
        self._owner_pid = os.getpid()
        disown_in_children(self)

    def begin(self, step: int, total: int | None, *, is_work_left: bool) -> None:
        """A loop begins at `step`: from here on signals are looked at between steps."""
        self._has_begun, self.has_ended = True, False
        if not self._is_under_way:
            self._is_under_way = True
            if not self._signals.install():
                self._say("note: the loop is not in the main thread, so that no signal can ask it to save or stop")
            self._watch.note_saved()
        if self._is_leader and is_work_left:
            job = self._opened.job
            with durable.explained("take the mark of an earlier end from", job.path, safe="checkpoints are untouched"):
                if job.finished() is not None:
                    check_fence(job, self._opened.attempt)
                    job.unmark_finished()
        self.at_safe_point(step, total)

    def start(self, found: Found, notes: list[str], took_s: float, clear: Callable[[], None]) -> None:
        """The attempt has found where it begins: say so, note it, and `clear` what dead attempts left."""
        step = found.start.step
        self.saved_step = self._taken_step = self._began_at = step
        self._log.begin(step)
        if found.restored is not None:
            self.heart.last_good_step = step
            self._display.note_resumed(step, max(0.0, time.time() - found.restored.manifest.created))
            self._watch.expect_cost(found.restored.manifest.write_s, found.restored.manifest.bytes)
        self.heart.beat(step, "start")
        if not self._is_leader:
            return
        for candidate in found.rejected:
            where = f" on the stage {candidate.stage}" if candidate.stage else ""
            self._say(f"rejected {candidate.name}{where}: {candidate.problem}")
            self.journal.write("rejected", name=candidate.name, problem=candidate.problem)
        self._say(describe_start(self._opened.attempt, str(self._opened.job.path), found, took_s))
        for note in notes:
            self._say(f"note: {note}")
        self.journal.write("started", **found.told(), fingerprint=self._facts.fingerprint)
        self._news.tell_pace(self._watch)
        with suppress(OSError, LastgoodError):
            # What cannot be cleared now takes space, nothing else; the next attempt tries again.
            clear()

    def note_step(self) -> None:
        self._watch.note_step()

    def ask_to_save(self) -> None:
        self._watch.is_save_asked = True

    def show_life(self, step: int, phase: str) -> None:
        self.heart.beat(step, phase)

    def at_safe_point(self, step: int, total: int | None, phase: str = "step", *, body_follows: bool = False) -> None:
        """Between steps, `step` steps are done: save if that is due, stop if that was asked for.

        With `body_follows` the body of the loop, or of the epoch, has more to do to this step, and a save that is
        only due is put off to its end: a step is committed once in an attempt, and it should be with all of that.

        Raises SystemExit to stop, and what `Saver.save` raises.
        """
        self._saver.finish_copy()
        self._end_step(step)
        self.heart.total_steps = -1 if total is None else total
        self.heart.beat(step, phase)
        self._display.show(step, total)
        if step > self._began_at:
            # The first step is done: optimizers have their state, and the snapshots' size is known.
            self._news.note_first_step(step)
            self._saver.prepare(self._internal)
        agreed = self._agree(step, phase)
        for note in self._saver.notes():
            self._say(f"note: {note}", everywhere=True)
        is_due = agreed.is_save_due or self._is_put_off
        self._is_put_off = is_due and body_follows
        if (agreed.stop_cause or (is_due and not body_follows)) and step != self._taken_step:
            self.save(step, is_urgent=bool(agreed.stop_cause))
        if agreed.stop_cause:
            self._await_saves(step)
            self._leave(step, agreed.stop_cause, self._saver.await_promoted(self._patience(step)))
        if self._log.failure is not None and not self._has_complained:
            self._has_complained = True
            self._say(f"note: logged values cannot be written now, and are kept: {self._log.failure}", everywhere=True)

    def _end_step(self, step: int) -> None:
        """What was logged since the last safe point was measured at `step`: no other checkpoint may carry it."""
        earlier = self._metrics if step == self._step else {}
        self._step, self._metrics = step, earlier | self._log.latest
        self._log.latest.clear()
        self._log.end_step(step)

    def _agree(self, step: int, phase: str) -> Agreed:
        wishes = [0, 0]
        if self._ranks.world_size == 1:
            wishes = self._watch.wishes(step, self._taken_step, self._may_save)
            self._note(self._saver.conclude(self._saver.standing()))
        elif self._cadence.is_due(phase):
            wish = self._watch.wishes(step, self._taken_step, self._may_save)
            mine = [*wish, self._cadence.pace_us(phase), *self._saver.standing()]
            found = self._exchange(step, mine)
            wishes = found[: len(wish)]
            self._cadence.note_agreed(phase, found[len(wish)])
            self._note(self._saver.conclude(found[len(wish) + 1 :]))
        return self._watch.agree(wishes, step, self._taken_step)

    def _may_save(self) -> bool:
        """A save is due: whether it can begin at once. If not, people learn that the interval is not kept."""
        if self._saver.is_free():
            return True
        self._news.tell_late(self._saver.under_way(), self._watch.pace.interval_s)
        return False

    def _exchange(self, step: int, values: list[int]) -> list[int]:
        """The maximum over all ranks. Raises UsageError if they are not at the same step."""
        most, least, *found = self._ranks.maximum([step, -step, *values])
        if most != -least:
            raise UsageError(
                f"ranks are at different steps: one at step {-least} when another is at {most}",
                safe="checkpoints that were committed are whole",
                remedy="let every rank do the same steps, and call run.safe_point() on all ranks or none",
            )
        return found

    def save(self, step: int, *, is_urgent: bool = False) -> None:
        """Take a snapshot and have it saved. What becomes of it is noted as soon as it is known."""
        self.heart.beat(step, "save")
        if self._ranks.world_size > 1:
            self._exchange(step, [])
        self._log.flush()
        self._taken_step = step
        result = self._saver.save(
            step,
            self._internal(),
            is_urgent=is_urgent,
            beat=self._patience(step),
            metrics=self._metrics,
            config=self._facts.config,
            fingerprint=self._facts.fingerprint,
        )
        self._watch.note_saved()
        self._news.tell_stillness(self._saver.unchanged_since, step)
        if result is not None:
            self._note([result])
        self.heart.beat(step, "step")

    def _patience(self, step: int) -> Callable[[], None]:
        return self._news.patience(lambda: self.heart.beat(step, "save"))

    def _await_saves(self, step: int) -> None:
        """Stand still until the fate of every save is known, on all ranks."""
        self._saver.wait(self._patience(step))
        standing = self._saver.standing()
        if self._ranks.world_size > 1:
            standing = self._exchange(step, standing)
        self._note(self._saver.conclude(standing))

    def _note(self, results: list[Result]) -> None:
        for result in results:
            if isinstance(result, Failed):
                self._note_failed(result)
            else:
                self._note_saved(result)
        if results:
            self._news.tell_trouble(self._saver.trouble())
            self._news.tell_pace(self._watch)

    def _note_saved(self, saved: Saved) -> None:
        self.saved_step = self._committed_step = saved.step
        self._failure = None
        self.heart.last_good_step = saved.step
        self._watch.note_cost(SaveCost(stall_s=saved.stall_s, write_s=saved.write_s, bytes=saved.bytes))
        self._news.note_stall(saved)
        self._display.note_saved(saved)
        # In the background the keeper remembers, as soon as it has committed.
        is_ours = self._is_leader and not self._saver.is_in_background
        if is_ours and time.monotonic() - self._recorded_at >= RECORD_S:
            self._remember()

    def _remember(self) -> None:
        """Renew the record outside the job's directory. Where that fails, say so once."""
        job = self._opened.job
        self._recorded_at = time.monotonic()
        error = self._records.note_saved(job.path, job.id, self.saved_step)
        if error is not None:
            self._say(f"note: cannot remember outside the job's directory that it saved: {error}")
            self._recorded_at = float("inf")

    def _note_failed(self, failed: Failed) -> None:
        self._failure = failed
        self._say(f"SAVE FAILED at step {failed.step}; carrying on from the last good one, step {self.saved_step}")
        self._say(str(failed.error), everywhere=True)

    def _leave(self, step: int, cause: str, left: str) -> NoReturn:
        if self._is_leader:
            self.journal.write("stopping", cause=cause, step=step, saved_step=self.saved_step)
        self.has_ended = True
        kept = f"{self._what_is_kept(step)}; {left}" if left else self._what_is_kept(step)
        self._say(f"stopped after step {step} ({cause}); {kept}; run again to continue")
        self.close()
        # A launcher tells Ctrl-C from other stops itself, and wants to know whether it was saved.
        is_interrupted = cause == "SIGINT" and not self._is_launched
        raise SystemExit(EXIT_INTERRUPTED if is_interrupted else EXIT_SAVED_RUN_AGAIN)

    def _what_is_kept(self, step: int) -> str:
        if not self.saved_step:
            return "nothing was saved yet"
        return f"saved step {step}" if step == self.saved_step else f"the last good step is {self.saved_step}"

    def finish(self, step: int, *, has_changed: bool = False) -> None:
        """All steps are done: save the final state and leave the marker that ends a chain of segments.

        `has_changed`: the state may be another than the one that an earlier attempt saved at this step.
        """
        self._end_step(step)
        self._await_saves(step)
        if step != self.saved_step or (has_changed and step != self._committed_step):
            self.save(step, is_urgent=True)
            self._await_saves(step)
            if self._failure is not None:
                # There is no later save that could make up for it, and the program must not end as if all was well.
                raise self._failure.error
        if left := self._saver.await_promoted(self._patience(step)):
            raise StorageError(left, safe="the final state is saved there", remedy="run again on this node")
        self._log.flush()
        if self._is_leader:
            self._mark_finished(step)
            self.journal.write("finished", step=step)
        self._saver.leave_stage()
        self.heart.beat(step, "finished")
        self.has_ended = True
        self.pause()
        if self._signals.stop_signal:
            self._say(f"{self._signals.stop_signal} came while the last step was saved: the job is finished")

    def _mark_finished(self, step: int) -> None:
        job = self._opened.job
        with durable.explained("mark as finished the job in", job.path, safe=f"step {step} is saved"):
            check_fence(job, self._opened.attempt)
            try:
                job.mark_finished(step, self._opened.attempt)
            except FileNotFoundError:
                check_fence(job, self._opened.attempt)  # a newer one may have swept it from under us
                raise
        if step:
            self._remember()

    def pause(self) -> None:
        """No loop is under way: give the signals back, because nobody looks at their flags now."""
        self._is_under_way = False
        self._signals.restore()

    def describe_exception(self, error: BaseException, step: int) -> str:
        self.has_ended = self._saver.is_expected_back = True
        self._settle()
        self.journal.write(
            "exception", type=type(error).__name__, text=str(error)[:500], step=step, rank=self._ranks.rank
        )
        good = f"the last good step is {self.saved_step}; run again to continue from there"
        return f"the program raised {type(error).__name__} after step {step}; {good if self.saved_step else 'nothing was saved yet'}"

    def note_end(self, step: int, total: int | None) -> None:
        """The program lets go of the job. Unless its end is known already, say what was not done."""
        if self.has_ended or os.getpid() != self._owner_pid:
            return
        self.has_ended = True
        if not self._is_leader:
            return
        self._settle()
        self.journal.write("left", step=step, saved_step=self.saved_step)
        if not self._has_begun:
            self._say("note: no loop ran, so nothing was saved; write `for step in run.steps(n)` or `run.epochs(n)`")
        elif step != self.saved_step:
            of = "" if total is None else f" of {total}"
            self._say(
                f"note: the loop was left after step {step}{of}, and step {self.saved_step} is the last that was saved; "
                "if the work is done, call run.finish() before `break`"
            )

    def _settle(self) -> None:
        """The program lets go of the job: learn what becomes of the saves that are under way."""
        for result in self._saver.settle(self._patience(self._step)):
            if isinstance(result, Saved):
                self._note_saved(result)
            else:
                self._say(str(result), everywhere=True)

    def close(self) -> None:
        """Release everything that this process holds of the job. Calling it twice is fine."""
        if os.getpid() != self._owner_pid:
            # A child that was forked from us holds copies only.
            return
        self._settle()
        self._saver.close()
        self._log.flush()
        self._log.close()
        self.pause()
        self.heart.close()
        self.journal.close()
        self._ranks.close()
        if self._opened.lock is not None:
            self._opened.lock.close()

    def disown(self) -> None:
        """In a child that was forked from us: signals are the child's own, and the lock must not outlive us."""
        self._signals.restore()
        self._saver.disown()
        if self._opened.lock is not None:
            self._opened.lock.close()

    def _say(self, text: str, *, everywhere: bool = False) -> None:
        if self._is_leader or everywhere:
            say(text)
