"""From a solved situation to the document. Pure."""

from collections.abc import Sequence

from lastgood.core.interval_choice import Limits, SaveCost, choose_interval
from lastgood.core.pace import LEAST_FRACTION_OF_MTTI, LEAST_S
from lastgood.core.schedule import has_changed
from lastgood.plan import document
from lastgood.plan.mechanisms import CHAIN, Cluster, Verdict, mechanisms_of
from lastgood.plan.sensitivity import Wrong, roughly_known, wrong_rates, wrong_saves
from lastgood.plan.situation import Situation
from lastgood.plan.solve import Candidate, Solved
from lastgood.plan.window import segments_of, window_of


def answer(s: Situation, solved: Solved, cluster: Cluster, assumed: Sequence[str] = ()) -> document.PlanAnswer:
    """All that was planned; `assumed` says what nobody has said. Raises UsageError where the time limit leaves no work."""
    window = window_of(s, solved)
    segments = segments_of(s, solved, window)
    mechanisms = mechanisms_of(s, solved, window, segments, cluster)
    is_chained = any(one.name == CHAIN and one.verdict is Verdict.USE for one in mechanisms)
    simulation = solved.simulated
    return document.PlanAnswer(
        format=document.FORMAT,
        version=document.VERSION,
        interval_s=solved.interval_s,
        decided=solved.decided.value,
        reason=solved.reason,
        way=solved.way.name,
        save=document.PlannedSave(s.save.stall_s, s.save.write_s, s.save.bytes, s.save_source),
        failures=document.PlannedFailures(
            0.0 if s.failures.mtti_s is not None else s.failures.per_1000_node_days,
            0.0 if s.failures.mtti_s is not None else s.failures.others_per_day,
            s.failures.shape,
            s.mtti_s,
            s.failures.source,
            solved.failures_per_week,
        ),
        recovery=document.PlannedRecovery(s.detection_s, s.queue_s, s.restart_s, list(assumed)),
        nodes=s.nodes,
        gpus=s.gpus,
        candidates=_told(solved.candidates),
        bounds=_told(solved.bounds),
        cost=_cost(s, solved),
        simulation=None
        if simulation is None
        else document.PlannedSimulation(
            simulation.why,
            simulation.efficiency,
            simulation.efficiency_error,
            simulation.failures,
            solved.formula_efficiency,
        ),
        doubts=[*solved.doubts, *([rough] if (rough := roughly_known(s, solved)) else [])],
        run_s=None if segments is None else segments.run_s,
        wall_s=None if segments is None else segments.wall_s,
        segments=None if segments is None else segments.count,
        mechanisms=[document.PlannedMechanism(m.name, m.verdict.value, m.setting, m.reason) for m in mechanisms],
        wrong_rates=_wrongs(wrong_rates(s, solved)),
        wrong_saves=_wrongs(wrong_saves(s, solved)),
        submit=document.PlannedSubmission(
            grace_s=window.grace_s,
            lead_s=None if s.limit_s is None else window.lead_s,
            mtti_s=s.mtti_s,
            may_requeue=cluster.requeues,
            segments=segments.count if is_chained and segments is not None else None,
            limit_s=s.limit_s,
            nodes=s.nodes,
            interval_s=solved.interval_s,
            is_auto_enough=_is_auto_enough(s, solved),
            excluded=[m.name for m in mechanisms if m.verdict is Verdict.LEAVE],
        ),
    )


def _told(candidates: list[Candidate]) -> list[document.PlannedCandidate]:
    return [document.PlannedCandidate(c.name, c.formula, c.interval_s) for c in candidates]


def _wrongs(wrongs: list[Wrong]) -> list[document.PlannedWrong]:
    return [document.PlannedWrong(w.factor, w.lost_as_planned, w.lost_at_best) for w in wrongs]


def _cost(s: Situation, solved: Solved) -> document.PlannedCost:
    def gpu_hours(seconds: float) -> float | None:
        return None if s.gpus is None else s.gpus * seconds / 3600

    return document.PlannedCost(
        effective_share=solved.efficiency,
        save_share=solved.save_share,
        rework_s=solved.rework_s,
        rework_gpu_hours=gpu_hours(solved.rework_s),
        rework_steps=solved.rework_s / s.step_s if s.step_s else None,
        lost_per_failure_s=solved.lost_per_failure_s,
        lost_per_week_s=solved.lost_per_week_s,
        # In the queue none are held.
        lost_per_week_gpu_hours=gpu_hours(max(solved.lost_per_week_s - solved.failures_per_week * s.queue_s, 0.0)),
        rework_per_week_steps=solved.failures_per_week * solved.rework_s / s.step_s if s.step_s else None,
        ettr=solved.ettr,
        ettr_formula=_ettr_formula(s, solved),
    )


def _ettr_formula(s: Situation, solved: Solved) -> str:
    u0, m = s.detection_s + s.restart_s, s.mtti_s
    half = solved.interval_s / 2 if solved.way.promotion is None else solved.rework_s
    stall, interval = solved.way.stall_s, solved.interval_s
    return f"(1 - ({u0:.4g} + {half:.4g})/{m:.5g}) / (1 + {stall:.3g}/{interval:.4g})"


def _is_auto_enough(s: Situation, solved: Solved) -> bool:
    """Whether every="auto" comes to the same when it is told the MTTI: it has bounds of its own, and no tolerated loss."""
    least_s = min(LEAST_S, LEAST_FRACTION_OF_MTTI * s.mtti_s)
    cost = SaveCost(solved.way.stall_s, solved.way.write_s)
    return not has_changed(solved.interval_s, choose_interval(cost, s.mtti_s, Limits(least_s=least_s)).interval_s)
