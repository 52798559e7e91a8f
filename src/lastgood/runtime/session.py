"""One attempt of the job on this rank: what happens at each safe point, until it finishes or stops."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import msgspec

from lastgood.core.errors import EXIT_INTERRUPTED, EXIT_SAVED_RUN_AGAIN, LastgoodError, UsageError
from lastgood.core.interval_choice import SaveCost
from lastgood.core.pace import NOTHING_SAID, Pace, pace_news
from lastgood.runtime.cadence import Cadence
from lastgood.runtime.children import disown_in_children
from lastgood.runtime.environment import Surroundings
from lastgood.runtime.heartbeats import HeartbeatWriter
from lastgood.runtime.opening import OpenedJob
from lastgood.runtime.ports import Ranks
from lastgood.runtime.resume import Found
from lastgood.runtime.saver import Failed, Saved, Saver
from lastgood.runtime.signals import SignalFlags
from lastgood.runtime.stopping import Agreed, StopWatch
from lastgood.runtime.talk import ProgressDisplay, describe_start, say
from lastgood.runtime.values_log import ValuesLog
from lastgood.store import durable
from lastgood.store.attempts import Journal, check_fence
from lastgood.store.record import Records
from lastgood.store.sweep import sweep_incomplete

RECORD_S = 60.0
"""How often the record outside the job's directory is renewed; the first save always renews it."""


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
        self.journal = Journal(opened.job, opened.attempt)
        self.heart = HeartbeatWriter(surroundings.heartbeats, ranks.rank)
        self.saved_step = 0
        """Newest step that is committed, or the step that the attempt began from."""
        self._committed_step = -1
        """Newest step that this attempt has committed."""
        self._told_pace = NOTHING_SAID
        self._told_trouble = ""
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

    def start(self, found: Found, notes: list[str], took_s: float) -> None:
        """The attempt has found where it begins: say so, note it, and clear what dead attempts left."""
        step = found.start.step
        self.saved_step = step
        self._log.begin(step)
        job = self._opened.job
        if found.restored is not None:
            self.heart.last_good_step = step
            self._display.note_resumed(step, max(0.0, time.time() - found.restored.manifest.created))
            self._watch.expect_cost(found.restored.manifest.write_s, found.restored.manifest.bytes)
        self.heart.beat(step, "start")
        if not self._is_leader:
            return
        for candidate in found.rejected:
            self._say(f"rejected {candidate.name}: {candidate.problem}")
            self.journal.write("rejected", name=candidate.name, problem=candidate.problem)
        self._say(describe_start(self._opened.attempt, str(job.path), found, took_s))
        for note in notes:
            self._say(f"note: {note}")
        self.journal.write(
            "started",
            how=found.start.kind.value,
            step=step,
            reason=found.start.reason,
            rejected=[candidate.name for candidate in found.rejected],
        )
        if found.restored is not None:
            self._tell_pace()
        with suppress(OSError, LastgoodError):
            # What cannot be cleared now takes space, nothing else; the next attempt tries again.
            sweep_incomplete(job, self._opened.attempt)

    def note_step(self) -> None:
        self._watch.note_step()

    def ask_to_save(self) -> None:
        self._watch.is_save_asked = True

    def show_life(self, step: int, phase: str) -> None:
        self.heart.beat(step, phase)

    def at_safe_point(self, step: int, total: int | None, phase: str = "step", *, finish_follows: bool = False) -> None:
        """Between steps, `step` steps are done: save if that is due, stop if that was asked for.

        With `finish_follows` no step is left, and a save that is only due is put off to the end: a step is
        committed once in an attempt, and the final state should be it.

        Raises SystemExit to stop, and what `Saver.save` raises.
        """
        self._log.end_step(step)
        self.heart.total_steps = -1 if total is None else total
        self.heart.beat(step, phase)
        self._display.show(step, total)
        agreed = self._agree(step, phase)
        is_due = agreed.is_save_due or self._is_put_off
        self._is_put_off = is_due and finish_follows
        if (agreed.stop_cause or (is_due and not finish_follows)) and step != self.saved_step:
            self.save(step)
            if not agreed.stop_cause:
                self._tell_pace()
        if agreed.stop_cause:
            self._leave(step, agreed.stop_cause)
        if self._log.failure is not None and not self._has_complained:
            self._has_complained = True
            self._say(f"note: logged values cannot be written now, and are kept: {self._log.failure}", everywhere=True)

    def _agree(self, step: int, phase: str) -> Agreed:
        wishes = [0, 0]
        if self._ranks.world_size == 1:
            wishes = self._watch.wishes(step, self.saved_step)
        elif self._cadence.is_due(phase):
            mine = [*self._watch.wishes(step, self.saved_step), self._cadence.pace_us(phase)]
            *wishes, slowest_us = self._exchange(step, mine)
            self._cadence.note_agreed(phase, slowest_us)
        return self._watch.agree(wishes, step, self.saved_step)

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

    def save(self, step: int) -> Failed | None:
        """Save now. A failure is an event and, if the policy says so, an error."""
        self.heart.beat(step, "save")
        if self._ranks.world_size > 1:
            self._exchange(step, [])
        self._log.flush()
        result = self._saver.save(
            step,
            self._internal(),
            metrics=dict(self._log.latest),
            config=self._facts.config,
            fingerprint=self._facts.fingerprint,
        )
        self._watch.note_saved()
        if isinstance(result, Failed):
            self._note_failed(result)
        else:
            self._note_saved(result)
        self.heart.beat(step, "step")
        return result if isinstance(result, Failed) else None

    def _note_saved(self, saved: Saved) -> None:
        self.saved_step = self._committed_step = saved.step
        self.heart.last_good_step = saved.step
        # The loop stood still until the checkpoint was committed.
        self._watch.note_cost(SaveCost(stall_s=saved.took_s, write_s=saved.took_s, bytes=saved.bytes))
        self._display.note_saved(saved)
        if not self._is_leader:
            return
        self.journal.write(
            "committed", step=saved.step, name=saved.name, bytes=saved.bytes, write_s=round(saved.took_s, 6)
        )
        for verdict in saved.deleted:
            self.journal.write("deleted", name=verdict.name, reason=verdict.reason)
        self._tell_trouble(saved)
        if time.monotonic() - self._recorded_at >= RECORD_S:
            self._remember()

    def _tell_trouble(self, saved: Saved) -> None:
        """What a person should know of a save that has worked."""
        if saved.not_deleted and saved.not_deleted != self._told_trouble:
            self._say(f"note: older checkpoints could not be deleted, and take space: {saved.not_deleted}")
            self.journal.write("not_deleted", step=saved.step, error=saved.not_deleted)
        self._told_trouble = saved.not_deleted
        if saved.unchanged_since is not None:
            self._say(
                f"note: nothing in the state has changed from step {saved.unchanged_since} to step {saved.step}. "
                "A loop that writes `w = w + ...` makes a new array, which is not the one that is saved: "
                "write `w += ...` or `w[:] = ...`"
            )

    def _tell_pace(self) -> None:
        """How often it saves and how long a stop takes, when either is known first or has changed."""
        watch = self._watch
        text, self._told_pace = pace_news(
            watch.pace, watch.margin_s, has_time_limit=watch.has_time_limit, said=self._told_pace
        )
        if text and self._is_leader:
            self._say(text)
            self.journal.write("paced", interval_s=self._told_pace.interval_s, margin_s=self._told_pace.margin_s)

    def _remember(self) -> None:
        """Renew the record outside the job's directory. Where that fails, say so once."""
        job = self._opened.job
        self._recorded_at = time.monotonic()
        error = self._records.note_saved(job.path, job.id, self.saved_step)
        if error is not None:
            self._say(f"note: cannot remember outside the job's directory that it saved: {error}")
            self._recorded_at = float("inf")

    def _note_failed(self, failed: Failed) -> None:
        self.journal.write("save_failed", step=failed.step, rank=self._ranks.rank, error=failed.error.what)
        self._say(f"SAVE FAILED at step {failed.step}; carrying on from the last good one, step {self.saved_step}")
        self._say(str(failed.error), everywhere=True)

    def _leave(self, step: int, cause: str) -> NoReturn:
        if self._is_leader:
            self.journal.write("stopping", cause=cause, step=step, saved_step=self.saved_step)
        self.has_ended = True
        self._say(f"stopped after step {step} ({cause}); {self._what_is_kept(step)}; run again to continue")
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
        self._log.end_step(step)
        if step != self.saved_step or (has_changed and step != self._committed_step):
            failed = self.save(step)
            if failed is not None:
                # There is no later save that could make up for it, and the program must not end as if all was well.
                raise failed.error
        self._log.flush()
        if self._is_leader:
            self._mark_finished(step)
            self.journal.write("finished", step=step)
        self.heart.beat(step, "finished")
        self.has_ended = True
        self.pause()
        if self._signals.stop_signal:
            self._say(f"{self._signals.stop_signal} came while the last step was saved: the job is finished")

    def _mark_finished(self, step: int) -> None:
        job = self._opened.job
        with durable.explained("mark as finished the job in", job.path, safe=f"step {step} is saved"):
            check_fence(job, self._opened.attempt)
            job.mark_finished(step, self._opened.attempt)
        if step:
            self._remember()

    def pause(self) -> None:
        """No loop is under way: give the signals back, because nobody looks at their flags now."""
        self._is_under_way = False
        self._signals.restore()

    def describe_exception(self, error: BaseException, step: int) -> str:
        self.has_ended = True
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
        self.journal.write("left", step=step, saved_step=self.saved_step)
        if not self._has_begun:
            self._say("note: no loop ran, so nothing was saved; write `for step in run.steps(n)` or `run.epochs(n)`")
        elif step != self.saved_step:
            of = "" if total is None else f" of {total}"
            self._say(
                f"note: the loop was left after step {step}{of}, and step {self.saved_step} is the last that was saved; "
                "if the work is done, call run.finish() before `break`"
            )

    def close(self) -> None:
        """Release everything that this process holds of the job. Calling it twice is fine."""
        if os.getpid() != self._owner_pid:
            # A child that was forked from us holds copies only.
            return
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
        if self._opened.lock is not None:
            self._opened.lock.close()

    def _say(self, text: str, *, everywhere: bool = False) -> None:
        if self._is_leader or everywhere:
            say(text)
