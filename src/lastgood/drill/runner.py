"""Runs a job under faults: waits for the moment of each, causes it, follows what it does, heals it, and ends what is left."""

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psutil

from lastgood.core.accounting import Record
from lastgood.core.errors import LastgoodError
from lastgood.drill.collect import added_options, came_through, ended_as, final_step, last_words, refusal, resumed_name
from lastgood.drill.course import Course, Struck
from lastgood.drill.fault import Call, Calm, Fault, NoVictimError, Saved
from lastgood.drill.journal import FileJournal
from lastgood.drill.measure import Watch, measure
from lastgood.drill.quiet import Quiet
from lastgood.drill.scene import TrialScene
from lastgood.drill.spec import Kind, Spec
from lastgood.drill.strike import Strike
from lastgood.drill.when import caught_in, is_due
from lastgood.trial.deferring import deferred_signals
from lastgood.trial.place import Place
from lastgood.trial.target import Way
from lastgood.trial.trial import AGAIN_LIMIT, LOOK_S, Sight, Trial

_ASK_AGAIN_S = 0.2
_FRUITLESS_STARTS = 3
"""Starts in a row without a step after which the command line is not given again."""
_EFFECT_LIMIT_S = 5.0
"""So long a fault that shows no effect is left in place when the job goes on."""
_NO_VICTIM_PATIENCE_S = 30.0


class Order(msgspec.Struct, frozen=True):
    """How a course is run."""

    limit_s: float
    seed: int = 0
    calm: Calm = Calm()
    is_until_recovered: bool = False
    """End it when it has come through all faults, rather than let it finish."""


class Runner:
    def __init__(
        self,
        call: Call,
        place: Place,
        plan: Sequence[tuple[Spec, Fault]],
        order: Order,
        journal: FileJournal,
        say: Callable[[str], None],
    ) -> None:
        self._call = call
        self._place = place
        self._strikes = [Strike(number, spec, fault) for number, (spec, fault) in enumerate(plan, 1)]
        self._order = order
        self._journal = journal
        self._say = say
        self._damaged: dict[str, float] = {}
        """Checkpoints that faults have damaged, and when."""
        self._first_saved_at: float | None = None
        self._first_saved_step: int | None = None
        self._whole_step: int | None = None
        """Of the newest checkpoint when a look has last seen one that was whole."""
        self._has_checkpoints = False
        self._began = 0.0
        self._fruitless = 0
        self._marks = (0, 0)

    def run(self) -> Course:
        """Whatever happens, all faults are healed and nothing of the job runs when this returns or raises."""
        options = added_options(self._call.target.options, self._strikes_options())
        if options and self._call.way is Way.LASTGOOD:
            self._say(f"the faults need: lastgood run {' '.join(options)}")
        target = msgspec.structs.replace(self._call.target, options=(*self._call.target.options, *options))
        # Sockets must have short paths, and mounts should not be where somebody copies a directory.
        with tempfile.TemporaryDirectory(prefix="lastgood-drill-", ignore_cleanup_errors=True) as directory:
            trial = Trial(target, self._place, self._call.way)
            scene = TrialScene(
                trial,
                self._journal,
                calm=self._order.calm,
                hooks=self._call.hooks,
                chance=random.Random(self._order.seed),
                directory=Path(directory),
            )
            try:
                for strike in self._strikes:
                    strike.fault.prepare(scene)
                course = self._attend(scene)
            finally:
                # In this order: a process that stands still, or waits for a disk that does not answer, has to be let go first.
                with deferred_signals():
                    try:
                        self._heal_all(scene)
                    finally:
                        try:
                            trial.end()
                        finally:
                            self._take_down(scene)
            return self._with_struck(course, scene)

    def _strikes_options(self) -> list[str]:
        return [word for strike in self._strikes for word in strike.fault.run_options(self._order.calm)]

    def _attend(self, scene: TrialScene) -> Course:
        trial = scene.trial
        trial.start()
        self._began = trial.began
        self._journal.note("started", way=trial.way.value, words=trial.words(), place=str(self._place.path))
        is_over_limit = is_ended_early = False
        quiet = Quiet(self._order.limit_s)
        last = scene.look()
        while True:
            last = scene.look()
            self._note_saves(last, scene)
            self._tend(scene)
            if not last.is_running:
                if not trial.is_to_start_again or trial.starts >= AGAIN_LIMIT or self._is_hopeless(scene):
                    break
                scene.start_again("it had ended before its work was done")
            if (strike := self._due(last)) is not None:
                self._strike(strike, scene)
            if self._order.is_until_recovered and self._is_all_come_through():
                is_ended_early = True
                break
            if said := quiet.told(last.at, (scene.steps.changes, last.start), last.at - self._began):
                self._say(said)
            if last.at - self._began > self._order.limit_s:
                is_over_limit = True
                break
            time.sleep(LOOK_S)
        ended_at = time.time()
        is_ended = is_over_limit or is_ended_early
        self._journal.note("ended", exit_code=None if is_ended else trial.exit_code, is_over_limit=is_over_limit)
        records = tuple(trial.records())
        return Course(
            began_at=self._began,
            took_s=ended_at - self._began,
            exit_code=None if is_ended else trial.exit_codes[-1],
            starts=trial.starts,
            final_step=final_step(self._place, records, scene.steps),
            is_over_limit=is_over_limit,
            is_ended_early=is_ended_early,
            ended_as=ended_as(records),
            records=records,
            start_s=max(scene.steps.first_step_at - self._began, 0.0) if scene.steps.first_step_at else 0.0,
            longest_silence_s=scene.steps.longest_silence_s,
            has_steps=scene.steps.first_step_at is not None,
            first_saved_step=self._first_saved_step,
            has_checkpoints=self._saves(scene, records),
            last_words=last_words(self._place),
        )

    def _is_hopeless(self, scene: TrialScene) -> bool:
        """Nothing disturbs it, or start after start ends without a step and without a fault: it will not come back."""
        marks = (scene.steps.changes, sum(not strike.is_pending for strike in self._strikes))
        self._fruitless = self._fruitless + 1 if marks == self._marks else 0
        self._marks = marks
        return not self._strikes or self._fruitless >= _FRUITLESS_STARTS

    def _note_saves(self, sight: Sight, scene: TrialScene) -> None:
        if self._first_saved_at is not None:
            return
        if sight.saved_step is not None:
            self._first_saved_at, self._first_saved_step = sight.at, sight.saved_step
            self._whole_step = sight.saved_step
        elif self._call.target.checkpoints and (found := self._whole(scene)):
            self._first_saved_at = sight.at
            self._first_saved_step = found[-1].step or sight.step

    def _whole(self, scene: TrialScene) -> list[Saved]:
        """The checkpoints that are whole now, newest first."""
        found = scene.checkpoints()
        if found:
            self._whole_step = scene.step_of(found[0])
        return found

    def _saves(self, scene: TrialScene, records: Sequence[Record]) -> bool | None:
        if self._first_saved_at is not None or scene.checkpoints():
            return True
        has_library = any(record.first("started") is not None for record in records)
        return False if has_library or self._call.target.checkpoints else None

    def _due(self, sight: Sight) -> Strike | None:
        """A moment that passes comes before a phase, which is waited for."""
        if not sight.is_running:
            return None
        due = [strike for strike in self._strikes if strike.is_pending and self._is_due(strike, sight)]
        due.sort(key=lambda strike: strike.spec.when is not None and strike.spec.when.kind is Kind.PHASE)
        return due[0] if due else None

    def _is_due(self, strike: Strike, sight: Sight) -> bool:
        when, newest = strike.spec.when, self._newest_watch()
        if when is None:
            return False
        if when.kind in (Kind.AFTER, Kind.PHASE) and strike.number > 1:
            before = self._strikes[strike.number - 2]
            if before.is_pending:
                return False
            newest = before.watch or newest if when.kind is Kind.AFTER else newest
        return is_due(when, sight, began=self._began, before=newest, first_saved_at=self._first_saved_at)

    def _newest_watch(self) -> Watch | None:
        watches = [strike.watch for strike in self._strikes if strike.watch is not None]
        return max(watches, key=lambda watch: watch.at, default=None)

    def _strike(self, strike: Strike, scene: TrialScene) -> None:
        when = strike.spec.when
        assert when is not None
        if when.kind is not Kind.PHASE:
            self._inject(strike, scene)
            return
        # In the middle of a save the only checkpoint may be gone: what it held is known from before.
        self._whole(scene)
        with caught_in(when.phase, scene) as caught:
            if caught is None:
                strike.windows += 1
                return
            strike.caught, scene.standing = caught.evidence, caught.players
            self._inject(strike, scene)
            scene.go_on()

    def _inject(self, strike: Strike, scene: TrialScene) -> None:
        before = scene.look()
        known = self._whole(scene)
        watch = Watch(before, strike.fault.consequence)
        scene.watches.append(watch)
        # On record before it is done: if the machine goes down with it, this says why.
        self._journal.note(
            "injecting", number=strike.number, fault=strike.spec.text, step=before.step, caught=strike.caught
        )
        try:
            injected = strike.fault.inject(scene)
        except NoVictimError as error:
            scene.watches.remove(watch)
            self._note_no_victim(strike, before.at, str(error))
            return
        except (LastgoodError, OSError, psutil.Error) as error:
            # What was half done is undone at the end; that it went wrong says nothing about the job.
            scene.watches.remove(watch)
            strike.why_not = f"it could not be caused: {error}"
            self._journal.note("not_injected", number=strike.number, reason=str(error))
            self._say(f"fault {strike.number} ({strike.spec.name}): {strike.why_not}")
            return
        for earlier in scene.watches[:-1]:
            if not earlier.has_come_through and earlier.overtaken_by is None:
                earlier.overtaken_by = strike.number
        watch.struck(injected.at)
        strike.watch, strike.injected = watch, injected
        if injected.damaged:
            # Listed when the job had been stopped, which may have saved until then.
            known = scene.listed
        self._damaged |= dict.fromkeys(injected.damaged, time.time())
        # One of the same name that was written since is another.
        intact = [saved for saved in known if saved.at > self._damaged.get(saved.name, 0.0)]
        if intact:
            strike.checkpoint = intact[0]
            strike.checkpoint_step = scene.step_of(intact[0])
        if not known:
            strike.overwritten_step = self._whole_step
        self._journal.note(
            "injected",
            number=strike.number,
            fault=strike.spec.text,
            harm_at=injected.at,
            what=injected.what,
            victims=list(injected.pids),
            paths=list(injected.paths),
            checkpoint=strike.checkpoint.name if strike.checkpoint else None,
            evidence=injected.evidence,
        )
        at_step = "" if watch.reached_step is None else f" at step {watch.reached_step}"
        self._say(f"fault {strike.number} ({strike.spec.name}){at_step}: {injected.what}")

    def _note_no_victim(self, strike: Strike, at: float, reason: str) -> None:
        """It is tried again for a while: the job may be between two starts."""
        if strike.waits_since is None:
            strike.waits_since = at
            self._journal.note("no_victim", number=strike.number, reason=reason)
        if at - strike.waits_since > _NO_VICTIM_PATIENCE_S:
            strike.why_not = reason

    def _tend(self, scene: TrialScene) -> None:
        """Ask faults for their effect, and heal those whose time has come."""
        now = time.time()
        for strike in self._strikes:
            if strike.injected is None or strike.is_healed:
                continue
            if strike.has_effect is not True and now - strike.asked_at >= _ASK_AGAIN_S:
                strike.asked_at = now
                self._ask_for_effect(strike, scene)
            watch = strike.watch
            is_through = watch is not None and watch.has_come_through
            if is_through and watch is not None and not strike.is_announced:
                strike.is_announced = True
                self._say(f"fault {strike.number} ({strike.spec.name}): {came_through(watch)}")
            if strike.fault.lasts_s is not None:
                is_over = now - strike.injected.at >= strike.fault.lasts_s
            else:
                waited_s = now - ((watch.caught_up_at if watch is not None else None) or now)
                is_over = is_through and (strike.has_effect is not False or waited_s > _EFFECT_LIMIT_S)
            if is_over:
                self._heal(strike, scene)

    def _ask_for_effect(self, strike: Strike, scene: TrialScene) -> None:
        assert strike.injected is not None
        try:
            strike.has_effect = strike.fault.took_effect(scene, strike.injected)
        except (LastgoodError, OSError, psutil.Error):
            strike.has_effect = None

    def _is_all_come_through(self) -> bool:
        return all(
            strike.why_not or (strike.watch is not None and strike.watch.has_come_through and strike.is_healed)
            for strike in self._strikes
        )

    def _heal(self, strike: Strike, scene: TrialScene) -> None:
        try:
            strike.fault.heal(scene)
        except (LastgoodError, OSError, psutil.Error) as error:
            strike.healing_problem = str(error)
            self._say(f"fault {strike.number} ({strike.spec.name}) could not be undone: {error}")
        strike.is_healed = True
        self._journal.note("healed", number=strike.number, fault=strike.spec.text, problem=strike.healing_problem)

    def _heal_in_the_end(self, strike: Strike, scene: TrialScene) -> None:
        if strike.injected is not None and strike.has_effect is not True and not strike.is_healed:
            self._ask_for_effect(strike, scene)
        if not strike.is_healed:
            self._heal(strike, scene)

    def _heal_all(self, scene: TrialScene) -> None:
        """The last one first. One that cannot be healed does not keep the others from it."""
        with ExitStack() as stack:
            # Whatever one of them raises, the others are healed before it is passed on.
            for strike in self._strikes:
                stack.callback(self._heal_in_the_end, strike, scene)

    def _take_down(self, scene: TrialScene) -> None:
        """What was mounted or made last goes first, and nothing keeps the others from it."""
        for strike in reversed(self._strikes):
            try:
                strike.fault.take_down(scene)
            except (LastgoodError, OSError) as error:
                problem = error.what if isinstance(error, LastgoodError) else str(error)
                strike.healing_problem = strike.healing_problem or problem
                self._journal.note("not_taken_down", number=strike.number, problem=problem)

    def _with_struck(self, course: Course, scene: TrialScene) -> Course:
        struck = []
        for strike in self._strikes:
            watch = strike.watch
            measured = None
            if watch is not None:
                measured = measure(watch, list(course.records), scene.steps, strike.checkpoint_step)
            struck.append(
                Struck(
                    number=strike.number,
                    spec=strike.spec,
                    consequence=strike.fault.consequence,
                    why_not=strike.why_not or strike.why_never(),
                    injected=strike.injected,
                    caught=strike.caught,
                    has_effect=strike.has_effect if strike.injected is not None else None,
                    measured=measured,
                    has_begun_again=watch is not None and watch.has_begun_again,
                    overwritten_step=strike.overwritten_step,
                    resumed_name=resumed_name(watch, course.records),
                    refused=refusal(watch, course.records),
                    healing_problem=strike.healing_problem,
                )
            )
        return msgspec.structs.replace(course, struck=tuple(struck))
