"""A drill of a job under Slurm: it is submitted, waited for, hurt, followed until it is back, and cancelled at the end.

    harm ... seen (journal) ... requeued (sacct) ... started again (journal) ... first new step ... caught up

The job runs in a copy of the directory, which all nodes must see, and is what `lastgood submit` makes of the command.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence

from lastgood.core.accounting import Record
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.units import duration
from lastgood.drill.course import Course, Struck
from lastgood.drill.fault import Answer, Call, Consequence, Injected, NoVictimError
from lastgood.drill.journal import FileJournal
from lastgood.drill.measure import Measured, StepLog, Watch, measure
from lastgood.drill.slurm_faults import SlurmFault
from lastgood.drill.slurm_job import SlurmJob
from lastgood.drill.spec import Kind, Spec, When
from lastgood.drill.verdict import Judged, judge, judge_end, judge_fault
from lastgood.drill.whole import Drilled, Request
from lastgood.trial.deferring import deferred_signals
from lastgood.trial.place import make_place
from lastgood.trial.target import Way
from lastgood.trial.trial import Sight

DEFAULT = (Spec("kill-rank"), Spec("requeue"))
_SOON = When(Kind.AFTER, seconds=1.0)
_LOOK_S = 0.05
_SIGHTS = 10_000
"""So many looks are remembered: what had been reached at a harm is known only when the command that did it has ended."""
_EFFECT_LIMIT_S = 60.0
_QUEUE_LIMIT_S = 86400.0
"""So long it may wait for its first nodes, which says nothing of the job: its own limit begins when it runs."""


def run_slurm_drill(request: Request, sbatch: Sequence[str], say: Callable[[str], None]) -> Drilled:
    """Run it. Whatever happens, the job is cancelled and its nodes are up again afterwards, or the error says which are not."""
    if request.call.way is not Way.LASTGOOD:
        raise UsageError("--slurm goes with `lastgood submit`, and so not with --again")
    journal = FileJournal(request.root)
    try:
        return _SlurmDrill(request, sbatch, journal, say).run()
    finally:
        journal.close()


class _Followed:
    """One fault of the plan, from before its moment on."""

    def __init__(self, number: int, spec: Spec) -> None:
        self.number = number
        self.spec = spec
        self.injected: Injected | None = None
        self.why_not = "the job had ended before its moment came"
        self.has_effect = False
        self.watch: Watch | None = None
        self.checkpoint_step: int | None = None
        self.healing_problem = ""


class _SlurmDrill:
    def __init__(
        self, request: Request, sbatch: Sequence[str], journal: FileJournal, say: Callable[[str], None]
    ) -> None:
        self._request = request
        self._call: Call = request.call
        self._journal = journal
        self._say = say
        self._steps = StepLog()
        self._watches: list[Watch] = []
        self._sights: deque[Sight] = deque(maxlen=_SIGHTS)
        place = make_place(request.root, "drill", self._call.target)
        self._job = SlurmJob(self._call.target, place, sbatch)
        self._end = time.monotonic() + _QUEUE_LIMIT_S
        self._running_since = 0.0

    def run(self) -> Drilled:
        plan = [_Followed(number, spec) for number, spec in enumerate(self._request.specs, 1)]
        with self._job as job:
            with deferred_signals():
                # Or nobody would know the number of a job that has been submitted.
                job.submit()
            self._journal.note("submitted", job=job.id, directory=str(job.place.path))
            self._say(f"job {job.id}: waits for its nodes")
            sight = self._wait(lambda sight: sight.is_running or job.state.is_over)
            if sight is None:
                return self._never_started()
            self._running_since = time.time()
            self._end = time.monotonic() + self._call.target.limit_s
            if sight.is_running:
                self._say(f"job {job.id} runs on {job.state.nodes}")
                for followed in plan:
                    self._follow(followed)
                if not self._request.is_until_recovered:
                    self._wait(lambda _: job.state.is_over)
            course = self._course(plan)
        return self._drilled(course)

    def _never_started(self) -> Drilled:
        verdict = Judged(
            Answer.UNKNOWN,
            f"it never started: it waited {duration(_QUEUE_LIMIT_S)} for its nodes",
            "ask for less by --sbatch, or for another partition",
        )
        return Drilled(verdict, self._request.specs, None, None)

    def _follow(self, followed: _Followed) -> None:
        """One fault: its moment, the harm, the way back, and the healing."""
        job = self._job
        if self._wait(lambda sight: self._is_due(followed, sight) or job.state.is_over) is None or job.state.is_over:
            return
        fault = SlurmFault(followed.spec, job, self._call.hooks, self._look)
        try:
            self._harm(followed, fault)
        finally:
            try:
                with deferred_signals():
                    fault.heal()
            except LastgoodError as error:
                followed.healing_problem = error.what
            self._journal.note(
                "healed", number=followed.number, fault=followed.spec.text, problem=followed.healing_problem
            )

    def _harm(self, followed: _Followed, fault: SlurmFault) -> None:
        job = self._job
        before = self._look()
        self._journal.note("injecting", number=followed.number, fault=followed.spec.text)
        followed.checkpoint_step = job.newest_checkpoint()
        try:
            injected = fault.inject()
        except (NoVictimError, LastgoodError) as error:
            followed.why_not = error.what if isinstance(error, LastgoodError) else str(error)
            self._journal.note("not_injected", number=followed.number, why=followed.why_not)
            return
        followed.injected, followed.why_not = injected, ""
        self._journal.note(
            "injected", number=followed.number, fault=followed.spec.text, at=injected.at, what=injected.what,
            evidence=injected.evidence,
        )  # fmt: skip
        before = next((sight for sight in reversed(self._sights) if sight.at <= injected.at), before)
        self._say(f"fault {followed.number} ({followed.spec.name}) at step {before.step}: {injected.what}")
        followed.watch = Watch(before, Consequence.RESTART)
        followed.watch.struck(injected.at)
        self._watches.append(followed.watch)
        watch = followed.watch
        effect_end = time.monotonic() + _EFFECT_LIMIT_S
        while not followed.has_effect and time.monotonic() < effect_end and not job.state.is_over:
            self._look()
            followed.has_effect = fault.took_effect(injected) or watch.begun_at is not None
            time.sleep(_LOOK_S)
        if not followed.has_effect:
            return
        self._wait(lambda _: watch.has_come_through or job.state.is_over)
        if watch.has_come_through:
            self._say(f"fault {followed.number}: goes on after step {watch.from_step}")

    def _is_due(self, followed: _Followed, sight: Sight) -> bool:
        when = followed.spec.when or _SOON
        before = self._watches[-1] if self._watches else None
        if not sight.is_running:
            return False
        if when.kind is Kind.STEP:
            return sight.step is not None and sight.step >= when.step
        if when.kind is Kind.TIME:
            return time.time() - self._running_since >= when.seconds
        if before is not None:
            return before.caught_up_at is not None and sight.at - before.caught_up_at >= when.seconds
        # The first one: after its first checkpoint.
        return sight.saved_step is not None and time.time() - self._running_since >= when.seconds

    def _look(self) -> Sight:
        sight = self._job.look()
        self._steps.note(sight)
        self._sights.append(sight)
        for watch in self._watches:
            watch.note(sight)
        return sight

    def _wait(self, condition: Callable[[Sight], bool]) -> Sight | None:
        """None if the limit of the drill passes before."""
        while not condition(sight := self._look()):
            if time.monotonic() > self._end:
                return None
            time.sleep(_LOOK_S)
        return sight

    def _course(self, plan: Sequence[_Followed]) -> Course:
        job = self._job
        last = self._look()
        records = tuple(job.records())
        ended = records[-1].last("ended") if records else None
        is_over = job.ask_now().is_over
        # What had no effect is nothing to come through.
        caused = [followed.watch for followed in plan if followed.has_effect]
        has_recovered = all(watch is not None and watch.has_come_through for watch in caused)
        is_ended_early = not is_over and self._request.is_until_recovered and has_recovered
        return Course(
            began_at=self._running_since,
            took_s=time.time() - self._running_since,
            exit_code=(0 if job.state.name == "COMPLETED" else 1) if is_over else None,
            starts=job.state.restarts + 1,
            final_step=last.step,
            is_over_limit=not is_over and not is_ended_early,
            is_ended_early=is_ended_early,
            ended_as=job.state.name if is_over else "",
            struck=tuple(self._struck(followed, list(records)) for followed in plan),
            records=records,
            has_steps=last.step is not None,
            has_checkpoints=job.newest_checkpoint() is not None,
            last_words=(str(ended.data.get("reason", "")),) if ended is not None else (),
        )

    def _struck(self, followed: _Followed, records: list[Record]) -> Struck:
        measured: Measured | None = None
        requeued_s: float | None = None
        watch = followed.watch
        if watch is not None:
            measured = measure(watch, records, self._steps, followed.checkpoint_step)
            again_at = self._job.started_again_at(watch.at)
            # Whole seconds. A start of Slurm that comes later than the job's next attempt has another cause.
            if again_at is not None and (watch.begun_at is None or again_at <= watch.begun_at + 1):
                requeued_s = max(again_at - watch.at, 0.0)
        return Struck(
            number=followed.number,
            spec=followed.spec,
            consequence=Consequence.RESTART,
            why_not=followed.why_not,
            injected=followed.injected,
            has_effect=followed.has_effect,
            measured=measured,
            has_begun_again=watch is not None and watch.has_begun_again,
            healing_problem=followed.healing_problem,
            requeued_s=requeued_s,
        )

    def _drilled(self, course: Course) -> Drilled:
        judged: list[Judged] = []
        for i, struck in enumerate(course.struck):
            is_last = all(later.injected is None for later in course.struck[i + 1 :])
            judged.append(judge_fault(struck, course, is_last=is_last))
        end = judge_end(course, None)
        return Drilled(judge(judged, end), self._request.specs, None, course, tuple(judged), end)
