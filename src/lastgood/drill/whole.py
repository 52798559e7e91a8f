"""A whole drill: the job undisturbed, the job under faults, what the faults cost in other ways, and the verdict."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import duration
from lastgood.drill.bill import Bill, Other, make_bill, saving_of
from lastgood.drill.course import Course
from lastgood.drill.fault import Answer, Call, Calm, Campaign, Fault, Stage, Tried, make_fault
from lastgood.drill.journal import FileJournal
from lastgood.drill.runner import Order, Runner
from lastgood.drill.schedule import settled
from lastgood.drill.spec import RESTORE, Kind, Spec
from lastgood.drill.verdict import Judged, judge, judge_calm, judge_end, judge_fault
from lastgood.trial.place import make_place, remove
from lastgood.trial.target import Target, Way

REPEATS = 3
"""Undisturbed runs of each kind behind an overhead."""
PATIENCE = 5.0
"""So many times the undisturbed time the other ways get under the same faults."""
_LEAST_LIMIT_S = 60.0
_LIMIT_PER_FAULT_S = 120.0


class Request(msgspec.Struct, frozen=True):
    call: Call
    specs: tuple[Spec, ...]
    root: Path
    """Of the drill; it exists, and is its own."""
    seed: int = 0
    wants_bill: bool = False
    is_quick: bool = False
    """Without an undisturbed run."""
    is_until_recovered: bool = False
    is_kept: bool = False
    """The directories of the trials stay."""


class Drilled(msgspec.Struct, frozen=True):
    verdict: Judged
    specs: tuple[Spec, ...]
    """With the moments that were chosen."""
    calm: Course | None
    course: Course | None
    """None if the undisturbed run already said enough, or only campaigns were asked for."""
    faults: tuple[Judged, ...] = ()
    end: Judged | None = None
    tried: tuple[Tried, ...] = ()
    bill: Bill | None = None


def check(call: Call, specs: Sequence[Spec]) -> None:
    """Raises UsageError for a fault that does not exist, whose options do not fit, or that cannot be caused here."""
    for spec in specs:
        fault = make_fault(spec.name, spec.options)
        if missing := fault.missing(call):
            raise UsageError(
                f"{spec.name} cannot be caused here: {missing}",
                safe="nothing was started",
                remedy="`lastgood drill --list` says what each fault needs, and which can be caused here",
            )
        if isinstance(fault, Campaign) and spec.when is not None:
            raise UsageError(f"{spec.text}: it is tried at moments of its own, leave @{spec.when.text} out")


def run_drill(request: Request, say: Callable[[str], None]) -> Drilled:
    """Run it. Whatever happens, nothing that it started or changed outlives it but its own directory."""
    journal = FileJournal(request.root)
    try:
        return _Drill(request, journal, say).run()
    finally:
        journal.close()


class _Drill:
    def __init__(self, request: Request, journal: FileJournal, say: Callable[[str], None]) -> None:
        self._request = request
        self._call = request.call
        self._journal = journal
        self._say = say
        self._calm = Calm()

    def run(self) -> Drilled:
        faults = [spec for spec in self._request.specs if not _is_campaign(spec)]
        campaigns = [spec for spec in self._request.specs if _is_campaign(spec)]
        calm = None
        if not self._request.is_quick:
            self._say("the job undisturbed, for comparison")
            calm = self._course("undisturbed", self._call.way, [], self._call.target.limit_s)
            if (said := judge_calm(calm, is_handed_on=self._call.way is Way.LASTGOOD)) is not None:
                return Drilled(said, tuple(faults), calm, None)
            self._calm = Calm(calm.start_s, calm.longest_silence_s, calm.took_s, calm.final_step or 0)
            self._say(_told(calm))
        tried = tuple(one for number, spec in enumerate(campaigns, 1) for one in self._campaign(number, spec))
        if not faults:
            return Drilled(_judge_tried(tried), (), calm, None, tried=tried)
        plan = settled(with_restart_before(faults), self._calm, saved_step=calm.first_saved_step if calm else None)
        for number, spec in enumerate(plan, 1):
            self._journal.note("planned", number=number, fault=spec.text)
        self._say(f"the job under {len(plan)} fault{'s' if len(plan) > 1 else ''}")
        course = self._course("drill", self._call.way, plan, self._limit_s(len(plan)))
        judged = _judge_faults(course)
        end = judge_end(course, calm)
        verdict = judge([*judged, *(Judged(t.answer, f"{t.what}: {t.reason}") for t in tried)], end)
        bill = self._bill(calm, course, plan) if calm is not None and not course.is_over_limit else None
        return Drilled(verdict, tuple(plan), calm, course, tuple(judged), end, tried, bill)

    def _course(self, name: str, way: Way, plan: Sequence[Spec], limit_s: float) -> Course:
        call = msgspec.structs.replace(self._call, way=way, target=_for_way(self._call.target, way))
        place = make_place(self._request.root, name, call.target)
        made = []
        for spec in plan:
            fault = make_fault(spec.name, spec.options)
            assert isinstance(fault, Fault)
            made.append((spec, fault))
        order = Order(limit_s, self._request.seed, self._calm, self._request.is_until_recovered and bool(plan))
        quiet = self._say if way is self._call.way else _nothing
        try:
            return Runner(call, place, made, order, self._journal, quiet).run()
        finally:
            if not self._request.is_kept and name not in ("drill", "undisturbed"):
                remove(place.path)

    def _limit_s(self, faults: int) -> float:
        """A job that does not come back must not keep the drill for ever."""
        if not self._calm.took_s:
            return self._call.target.limit_s
        own = PATIENCE * self._calm.took_s + faults * (_LIMIT_PER_FAULT_S + self._calm.start_s)
        return min(max(own, _LEAST_LIMIT_S), self._call.target.limit_s)

    def _campaign(self, number: int, spec: Spec) -> list[Tried]:
        campaign = make_fault(spec.name, spec.options)
        assert isinstance(campaign, Campaign)
        self._say(f"{spec.text}: each try in a run of its own")
        root = self._request.root / f"{spec.name}-{number}"
        root.mkdir()
        stage = Stage(
            self._call.target, self._call.way, root, self._journal, self._calm, random.Random(self._request.seed)
        )
        tried = campaign.run(stage)
        for one in tried:
            self._journal.note("tried", fault=spec.text, what=one.what, answer=one.answer.value, reason=one.reason)
        return tried

    def _bill(self, calm: Course, course: Course, plan: Sequence[Spec]) -> Bill:
        bare_s: list[float] = []
        protected_s = [calm.took_s]
        others: list[Other] = []
        if self._request.wants_bill:
            limit_s = PATIENCE * calm.took_s + _LEAST_LIMIT_S
            # By turns, so that a machine that slows down meanwhile does so for both.
            for number in range(1, REPEATS + 1):
                self._say(f"the bill: undisturbed runs, {number} of {REPEATS}")
                bare_s += self._undisturbed_s(f"bare-{number}", Way.BARE, limit_s)
                if number < REPEATS and self._call.way is Way.LASTGOOD:
                    protected_s += self._undisturbed_s(f"protected-{number + 1}", Way.LASTGOOD, limit_s)
            ways = [way for way in (Way.AGAIN, Way.FROM_NOTHING) if way is not self._call.way]
            others = [self._other(way, plan, calm) for way in ways]
            if self._call.way is not Way.LASTGOOD:
                # There is nothing beside the command whose cost could be told.
                bare_s, protected_s = [*bare_s, *protected_s], []
        return make_bill(
            bare_s=bare_s,
            protected_s=protected_s,
            course=course,
            has_finished=_has_finished(course, calm),
            saving=saving_of(calm.records),
            others=others,
        )

    def _undisturbed_s(self, name: str, way: Way, limit_s: float) -> list[float]:
        course = self._course(name, way, [], limit_s)
        return [course.took_s] if course.exit_code == 0 else []

    def _other(self, way: Way, plan: Sequence[Spec], calm: Course) -> Other:
        limit_s = PATIENCE * calm.took_s
        self._say(f"the bill: the same faults, {WORDS[way]} (at most {duration(limit_s)})")
        specs = [other for spec in plan if (other := in_other_way(spec, way, self._call.target)) is not None]
        course = self._course(way.name.lower().replace("_", "-"), way, specs, limit_s)
        came = sum(struck.injected is not None for struck in course.struck)
        took_s = course.took_s if _has_finished(course, calm) else None
        return Other(way, took_s, limit_s, course.starts, came, course.exit_code)


WORDS = {
    Way.BARE: "nobody starts it again",
    Way.AGAIN: "started again only, as --requeue does",
    Way.FROM_NOTHING: "without checkpoints",
    Way.LASTGOOD: "under lastgood run",
}


def with_restart_before(specs: Sequence[Spec]) -> list[Spec]:
    """A restore needs a restart: where no fault before brings one about, one is added. Pure."""
    told: list[Spec] = []
    for spec in specs:
        is_restore = spec.when is not None and spec.when.kind is Kind.PHASE and spec.when.phase == RESTORE
        if is_restore and not any(earlier.name not in _WITHOUT_RESTART for earlier in told):
            told.append(Spec("kill-group"))
        told.append(spec)
    return told


_WITHOUT_RESTART = ("kill-keeper", "disk-full", "disk-slow", "disk-error")
_DAMAGE = ("truncate", "flip-bit", "zero", "half-delete")


def in_other_way(spec: Spec, way: Way, target: Target) -> Spec | None:
    """The same failure where no launcher of ours runs the command: what hits the launcher hits all of it there; what hits the
    keeper hits nothing. Pure."""
    if way is Way.LASTGOOD:
        return spec
    if spec.name == "kill-keeper":
        return None
    is_without_files = way is Way.FROM_NOTHING or not target.checkpoints
    if spec.name == "kill-launcher" or (spec.name in _DAMAGE and is_without_files):
        return Spec("kill-group", {}, spec.when)
    return spec


def _for_way(target: Target, way: Way) -> Target:
    return target if way is Way.LASTGOOD else msgspec.structs.replace(target, options=())


def _is_campaign(spec: Spec) -> bool:
    return isinstance(make_fault(spec.name, spec.options), Campaign)


def _has_finished(course: Course, calm: Course) -> bool:
    """It has done all that it does undisturbed."""
    return course.exit_code == 0 and judge_end(course, calm).answer is Answer.PASS


def _judge_faults(course: Course) -> list[Judged]:
    caused = [struck.number for struck in course.struck if struck.injected is not None]
    last = max(caused, default=0)
    return [judge_fault(struck, course, is_last=struck.number == last) for struck in course.struck]


def _judge_tried(tried: Sequence[Tried]) -> Judged:
    if not tried:
        return Judged(Answer.UNKNOWN, "nothing was tried")
    judged = [Judged(one.answer, f"{one.what}: {one.reason}", shows_resume=True) for one in tried]
    return judge(judged, Judged(Answer.PASS, f"it came through all {len(tried)} tries"))


def _told(calm: Course) -> str:
    steps = f", {calm.final_step} steps" if calm.final_step else ""
    saved = f", first checkpoint at step {calm.first_saved_step}" if calm.first_saved_step else ""
    return f"undisturbed: {duration(calm.took_s)}{steps}{saved}"


def _nothing(text: str) -> None:
    """What happens in runs for the bill is in the journal."""
