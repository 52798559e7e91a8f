"""Reports made by hand, whose numbers a test can reckon: a job that goes up a step a second, is killed and goes on."""

from collections.abc import Sequence

from lastgood.report.model import (
    KINDS,
    AttemptLine,
    Checkpoint,
    Ettr,
    FailedSave,
    FleetReport,
    Interval,
    IntervalSaid,
    IntervalUsed,
    Mark,
    Outcome,
    Problem,
    RankFigures,
    RankWrite,
    Report,
    Save,
    SaveFigures,
    Share,
    Span,
)

BEGIN = 1_790_000_000.0
"""2026-09-21 13:33:20 UTC."""

RESTART_S, STALL_S, WRITE_S, SAVE_EVERY = 20, 1, 4, 60


def made_report(
    job: str = "/scratch/me/runs/exp1",
    *,
    killed_after: Sequence[int] = (150, 100),
    last_steps: int = 200,
    begin: float = BEGIN,
    state: str = "finished",
    planned_s: float | None = 45.0,
    ranks: int = 4,
    problems: Sequence[Problem] = (),
    failed_saves: Sequence[FailedSave] = (),
    command: str = "python train.py",
    reason: str = "ended by SIGKILL",
) -> Report:
    """Attempts that are killed after so many steps each, and a last one that does `last_steps` more. A save every 60 steps of
    an attempt takes 1 s of it and 4 s to write; a restart takes 20 s."""
    spans: list[Span] = []
    attempts: list[AttemptLine] = []
    saves: list[Save] = []
    marks: list[Mark] = []
    used: list[IntervalUsed] = []
    at, step = begin, 0
    for i, steps in enumerate([*killed_after, last_steps]):
        number, began, first = i + 1, at, step
        is_last = i == len(killed_after)
        is_running = is_last and state.startswith("running")
        kept = step + (steps if is_last else steps // SAVE_EVERY * SAVE_EVERY)
        spans.append(_span("restarting", at, at + RESTART_S, number))
        at += RESTART_S
        saved_at = at
        for done in range(SAVE_EVERY, steps + 1, SAVE_EVERY):
            spans.append(_span("useful", at, at + SAVE_EVERY, number))
            at += SAVE_EVERY
            spans.append(_span("saving", at, at + STALL_S, number))
            saves.append(_save(number, first + done, at + WRITE_S))
            used.append(
                IntervalUsed(at=at, attempt=number, step=first + done, interval_s=at - saved_at, steps=SAVE_EVERY)
            )
            saved_at = at
            at += STALL_S
        rest = steps % SAVE_EVERY
        if rest:
            spans.append(_span("useful" if is_last else "lost", at, at + rest, number))
            at += rest
        reached = first + steps
        lost = 0 if is_last else reached - kept
        if not is_last:
            marks.append(Mark(at=at, attempt=number, kind="fault", what="killed", text=reason, step=reached))
        attempts.append(
            AttemptLine(
                attempt=number,
                began=began,
                ended=None if is_running else at,
                is_end_seen=True,
                how="resumed" if first else "fresh",
                from_checkpoint=f"step-{first:08d}-a{number - 1}" if first else "",
                is_from_memory=False,
                is_standby=False,
                is_inner=False,
                outcome=("finished" if state == "finished" else "program error") if is_last else "killed",
                reason="all steps are done" if is_last and state == "finished" else reason,
                exit_code=0 if is_last else 137,
                decided="" if is_last else "restart: it may pass",
                from_step=first,
                reached_step=reached,
                saved_step=kept if kept > first else None,
                saves=steps // SAVE_EVERY,
                lost_steps=lost,
                lost_s=float(lost),
                is_loss_known=True,
                first_step_at=began + RESTART_S + 1,
                restart_s=RESTART_S,
                host=f"node{i % 7:02d}",
                allocation="",
                nodes=[],
                gpus=None,
                seconds={},
            )
        )
        step = kept
    if state == "finished":
        marks.append(
            Mark(at=at, attempt=len(attempts), kind="finished", what="finished", text="all steps are done", step=step)
        )
    return _joined(
        job,
        state,
        begin,
        at,
        step,
        spans,
        attempts,
        saves,
        marks,
        used,
        planned_s,
        ranks,
        problems,
        failed_saves,
        command,
    )


def fleet_of(*reports: Report) -> FleetReport:
    sums = {kind: sum(s.seconds for r in reports for s in r.shares if s.kind == kind) for kind in KINDS}
    return FleetReport(
        made_at=BEGIN + 100_000,
        jobs=list(reports),
        not_read=[],
        ettr=_ettr(sums) if sum(sums.values()) else None,
        shares=_shares(sums),
        outcomes=_outcomes([line for report in reports for line in report.attempts]),
    )


def _joined(
    job: str,
    state: str,
    begin: float,
    end: float,
    step: int,
    spans: list[Span],
    attempts: list[AttemptLine],
    saves: list[Save],
    marks: list[Mark],
    used: list[IntervalUsed],
    planned_s: float | None,
    ranks: int,
    problems: Sequence[Problem],
    failed_saves: Sequence[FailedSave],
    command: str,
) -> Report:
    sums = {kind: sum(span.seconds for span in spans if span.kind == kind) for kind in KINDS}
    intervals = sorted(one.interval_s for one in used)
    return Report(
        job=job,
        id="0123456789ab",
        state=state,
        why="all steps are done" if state == "finished" else "program error in attempt 3: exit code 1",
        command=command,
        made_at=BEGIN + 100_000,
        began=begin,
        ended=end,
        reached_step=max((line.reached_step or 0 for line in attempts), default=None),
        last_good_step=saves[-1].step if saves else None,
        total_steps=step,
        lost_steps=sum(line.lost_steps for line in attempts),
        lost_s=sum(line.lost_s for line in attempts),
        unsaved_s=None,
        ettr=_ettr(sums),
        shares=_shares(sums),
        spans=spans,
        attempts=attempts,
        marks=marks,
        outcomes=_outcomes(attempts),
        interval=Interval(
            planned_s=planned_s,
            planned_by="plan.json" if planned_s else "",
            planned_ettr=0.95 if planned_s else None,
            median_used_s=intervals[len(intervals) // 2] if intervals else None,
            used=used,
            said=[IntervalSaid(at=begin, attempt=1, interval_s=60.0)],
        ),
        save_figures=SaveFigures(
            saves=len(saves),
            failed=len(failed_saves),
            median_write_s=WRITE_S if saves else None,
            fastest_write_s=WRITE_S if saves else None,
            slowest_write_s=WRITE_S if saves else None,
            median_stall_s=STALL_S if saves else None,
            bytes=3_000_000 if saves else None,
            bytes_in_all=3_000_000 * len(saves),
        ),
        saves=saves,
        failed_saves=list(failed_saves),
        checkpoints=[
            Checkpoint(
                name=save.name,
                step=save.step,
                attempt=save.attempt,
                state="good",
                problem="",
                created=save.at,
                age_s=BEGIN + 100_000 - save.at,
                bytes=save.bytes,
                world_size=ranks,
                is_last_good=save is saves[-1],
                is_pinned=False,
                stage="",
                verified="no",
                verified_by="",
                verified_at=None,
                ranks=[RankWrite(rank=rank, bytes=700_000, write_s=1.0 + rank / 10) for rank in range(ranks)],
            )
            for save in reversed(saves[-3:])
        ],
        ranks=[
            RankFigures(
                rank=rank, checkpoints=3, median_write_s=1.0 + rank % 5 / 10, slowest_write_s=2.0, bytes=700_000
            )
            for rank in range(ranks)
        ],
        problems=list(problems),
        notes=[],
    )


def _span(kind: str, begin: float, end: float, attempt: int) -> Span:
    return Span(kind=kind, begin=begin, end=end, attempt=attempt)  # type: ignore[arg-type]


def _save(attempt: int, step: int, at: float) -> Save:
    return Save(
        attempt=attempt,
        step=step,
        at=at,
        name=f"step-{step:08d}-a{attempt}",
        bytes=3_000_000,
        write_s=WRITE_S,
        stall_s=STALL_S,
        stage="",
        promoted_at=None,
    )


def _ettr(sums: dict[str, float]) -> Ettr:
    total = sum(sums.values())
    return Ettr(
        share=sums["useful"] / total,
        formula="ETTR = useful / all the time",
        with_numbers=f"{sums['useful']:.0f} s / {total:.0f} s",
        running_share=None,
        doubts=[],
    )


def _shares(sums: dict[str, float]) -> list[Share]:
    total = sum(sums.values())
    return [Share(kind=k, seconds=sums[k], share=sums[k] / total if total else 0.0, gpu_hours=None) for k in KINDS]


def _outcomes(attempts: list[AttemptLine]) -> list[Outcome]:
    names = sorted({line.outcome for line in attempts}, key=lambda name: -sum(a.outcome == name for a in attempts))
    return [
        Outcome(
            outcome=name,
            attempts=len(of := [line for line in attempts if line.outcome == name]),
            lost_steps=sum(line.lost_steps for line in of),
            lost_s=sum(line.lost_s for line in of),
            mean_restart_s=float(RESTART_S),
        )
        for name in names
    ]
