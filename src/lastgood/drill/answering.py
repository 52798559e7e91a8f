"""A drill as it is printed with --json."""

from lastgood.drill.answer import (
    DrillAnswer,
    DrilledBill,
    DrilledFault,
    DrilledLoad,
    DrilledOther,
    DrilledRun,
    DrilledTry,
    OtherWay,
)
from lastgood.drill.bill import Bill
from lastgood.drill.course import Course, Struck
from lastgood.drill.fault import Tried
from lastgood.drill.load import LoadDone
from lastgood.drill.verdict import Judged
from lastgood.drill.whole import Drilled, Request
from lastgood.trial.target import Way

_WAYS: dict[Way, OtherWay] = {Way.AGAIN: "started again", Way.FROM_NOTHING: "from nothing"}


def answer_of(request: Request, drilled: Drilled, directory: str, load: LoadDone | None = None) -> DrillAnswer:
    struck = drilled.course.struck if drilled.course is not None else ()
    return DrillAnswer(
        verdict=drilled.verdict.answer.value,
        reason=drilled.verdict.reason,
        remedy=drilled.verdict.remedy,
        command=list(request.call.target.command),
        way=request.call.way.value,
        seed=request.seed,
        directory=directory,
        undisturbed=None if drilled.calm is None else _run(drilled.calm),
        disturbed=None if drilled.course is None else _run(drilled.course),
        end=drilled.end.reason if drilled.end is not None else "",
        faults=[_fault(one, judged) for one, judged in zip(struck, drilled.faults, strict=True)],
        tries=[_try(one) for one in drilled.tried],
        bill=None if drilled.bill is None else _bill(drilled.bill),
        load=None if load is None else _load(load),
    )


def _load(load: LoadDone) -> DrilledLoad:
    return DrilledLoad(
        cpu=load.load.cpu,
        cpu_s=load.cpu_s,
        memory_bytes=load.memory_bytes,
        written_bytes=load.written_bytes,
        took_s=load.took_s,
    )


def _run(course: Course) -> DrilledRun:
    return DrilledRun(
        course.took_s,
        course.exit_code,
        course.starts,
        course.final_step,
        course.is_over_limit,
        course.start_s,
        list(course.last_words),
    )


def _fault(struck: Struck, judged: Judged) -> DrilledFault:
    injected, m = struck.injected, struck.measured
    return DrilledFault(
        number=struck.number,
        fault=struck.spec.text,
        verdict=judged.answer.value,
        reason=judged.reason,
        remedy=judged.remedy,
        at=injected.at if injected else None,
        what=injected.what if injected else "",
        caught=struck.caught,
        pids=list(injected.pids) if injected else [],
        paths=list(injected.paths) if injected else [],
        has_effect=struck.has_effect,
        reached_step=m.reached_step if m else None,
        checkpoint_step=m.checkpoint_step if m else None,
        resumed_step=m.resumed_step if m else None,
        blur_steps=m.blur_steps if m else 0,
        resumed_from=m.resumed_from if m else "",
        lost_steps=m.lost_steps if m else None,
        lost_s=m.lost_s if m else None,
        detected_s=m.detected_s if m else None,
        ended_as=m.ended_as if m else "",
        restarted_s=m.restarted_s if m else None,
        first_step_s=m.first_step_s if m else None,
        caught_up_s=m.caught_up_s if m else None,
        overtaken_by=m.overtaken_by if m else None,
        is_undone=not struck.healing_problem,
        requeued_s=struck.requeued_s,
    )


def _try(one: Tried) -> DrilledTry:
    return DrilledTry(one.what, one.answer.value, one.reason, one.resumed_step, one.lost_steps)


def _bill(bill: Bill) -> DrilledBill:
    predicted = bill.predicted
    return DrilledBill(
        bare_s=list(bill.bare_s),
        protected_s=list(bill.protected_s),
        overhead=bill.overhead,
        spread=bill.spread,
        ettr=bill.ettr,
        ettr_first_order=predicted.ettr_first_order if predicted else None,
        ettr_predicted=predicted.ettr if predicted else None,
        lost_per_failure_s=bill.lost_per_failure_s,
        lost_per_failure_predicted_s=predicted.lost_per_failure_s if predicted else None,
        delay_per_failure_s=bill.delay_per_failure_s,
        interval_s=bill.saving.interval_s,
        interval_steps=bill.saving.interval_steps,
        write_s=bill.saving.write_s,
        mtti_s=predicted.mtti_s if predicted else None,
        others=[DrilledOther(_WAYS[o.way], o.took_s, o.limit_s, o.starts, o.faults) for o in bill.others],
    )
