"""An example of a report, with something of everything: for tests of what is made from reports.

Its figures fit one another as those of a real one do: the spans follow on one another, the shares are their sums.
"""

from itertools import pairwise

import msgspec

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
    NotRead,
    Outcome,
    Problem,
    RankFigures,
    RankWrite,
    Report,
    Save,
    SaveFigures,
    Share,
    Span,
    SpanKind,
)

BEGAN = 1_790_000_000.0
"""2026-09-21, 14:13:20 UTC."""

_PIECES: list[tuple[SpanKind, float, int | None]] = [
    # 1: killed by a signal
    ("restarting", 42.0, 1),
    ("useful", 598.0, 1),
    ("saving", 2.0, 1),
    ("useful", 600.0, 1),
    ("saving", 2.0, 1),
    ("lost", 240.0, 1),
    # 2: preempted
    ("restarting", 8.0, None),
    ("restarting", 31.0, 2),
    ("useful", 900.0, 2),
    ("saving", 2.5, 2),
    ("stopping", 12.0, 2),
    # 3: hangs
    ("queued", 2400.0, None),
    ("restarting", 55.0, 3),
    ("useful", 600.0, 3),
    ("saving", 2.0, 3),
    ("lost", 130.0, 3),
    ("hung", 305.0, 3),
    ("stopping", 6.0, 3),
    # 4: its launcher was killed with it
    ("restarting", 5.0, None),
    ("restarting", 30.0, 4),
    ("useful", 602.0, 4),
    ("unseen", 900.0, None),
    # 5: finishes
    ("down", 1800.0, None),
    ("restarting", 28.0, 5),
    ("useful", 1195.0, 5),
    ("saving", 5.0, 5),
    ("stopping", 0.7, 5),
]


def example_report() -> Report:
    """Five attempts: killed, preempted, hung, lost, finished; two ranks."""
    spans = _spans()
    made_at = spans[-1].end + 3600.0
    useful = sum(span.seconds for span in spans if span.kind == "useful")
    whole = spans[-1].end - spans[0].begin
    away = sum(span.seconds for span in spans if span.kind in ("queued", "down", "unseen"))
    saves = _saves(spans)
    return Report(
        job="/scratch/ada/runs/example-1",
        id="0d8f7c31b5a9468e",
        state="finished",
        why="all steps are done, the last is 12000",
        command="python train.py --epochs 60",
        made_at=made_at,
        began=spans[0].begin,
        ended=spans[-1].end,
        reached_step=12000,
        last_good_step=12000,
        total_steps=12000,
        lost_steps=870,
        lost_s=240.0 + 441.0,
        unsaved_s=None,
        ettr=Ettr(
            share=useful / whole,
            formula="useful / (useful + lost + saving + restarting + stopping + hung + queued + down + unseen)",
            with_numbers=f"{useful:.0f} s / {whole:.0f} s = {useful / whole:.1%}",
            running_share=useful / (whole - away),
            doubts=["attempt 4: nobody saw its last step, so that more of its work may be lost"],
        ),
        shares=_shares(spans, gpus=2),
        spans=spans,
        attempts=_attempts(spans),
        marks=_marks(spans),
        outcomes=_outcomes(),
        interval=Interval(
            planned_s=540.0,
            planned_by="plan.json",
            planned_ettr=0.71,
            median_used_s=600.0,
            used=[
                IntervalUsed(at=b.at, attempt=b.attempt, step=b.step, interval_s=b.at - a.at, steps=b.step - a.step)
                for a, b in pairwise(saves)
                if a.attempt == b.attempt
            ],
            said=[
                IntervalSaid(at=spans[0].end, attempt=1, interval_s=60.0),
                IntervalSaid(at=spans[2].end, attempt=1, interval_s=600.0),
                IntervalSaid(at=spans[8].begin, attempt=2, interval_s=600.0),
            ],
        ),
        save_figures=SaveFigures(
            saves=len(saves),
            failed=1,
            median_write_s=6.1,
            fastest_write_s=5.2,
            slowest_write_s=9.4,
            median_stall_s=2.0,
            bytes=1_600_000_000,
            bytes_in_all=1_600_000_000 * len(saves),
        ),
        saves=saves,
        failed_saves=[
            FailedSave(
                attempt=3, step=5600, at=spans[15].end - 5, rank=1, error="No space left on device: /scratch/ada"
            )
        ],
        checkpoints=_checkpoints(saves, made_at),
        ranks=[
            RankFigures(rank=0, checkpoints=2, median_write_s=5.0, slowest_write_s=5.6, bytes=800_000_000),
            RankFigures(rank=1, checkpoints=2, median_write_s=8.7, slowest_write_s=9.3, bytes=800_000_000),
        ],
        problems=[
            Problem(where="attempts/0003.events.jsonl, line 7", what="it is torn, and passed over: the rest is used")
        ],
        notes=["attempt 1 does not tell when its first step was done: its start is counted until it had its state"],
    )


def second_report() -> Report:
    """One that runs, began a day later, and has never failed."""
    first = example_report()
    begin = BEGAN + 86400.0
    spans = [
        Span(kind="restarting", begin=begin, end=begin + 20, attempt=1),
        Span(kind="useful", begin=begin + 20, end=begin + 5020, attempt=1),
    ]
    attempt = first.attempts[0]
    return msgspec.structs.replace(
        first,
        job="/scratch/ada/runs/example-2 <b>&amp;",
        id="71ff00c2d7e0aa12",
        state="running",
        why="process 4242 on n17",
        made_at=begin + 5020,
        began=begin,
        ended=None,
        reached_step=2500,
        last_good_step=None,
        total_steps=None,
        lost_steps=0,
        lost_s=0.0,
        unsaved_s=5000.0,
        ettr=Ettr(
            share=5000 / 5020,
            formula="useful / (useful + restarting)",
            with_numbers=f"5000 s / 5020 s = {5000 / 5020:.1%}",
            running_share=5000 / 5020,
            doubts=["5000 s of it are not saved yet"],
        ),
        shares=_shares(spans, gpus=None),
        spans=spans,
        attempts=[
            msgspec.structs.replace(
                attempt,
                began=begin,
                ended=None,
                outcome="",
                reason="",
                exit_code=None,
                decided="",
                reached_step=2500,
                saved_step=None,
                saves=0,
                lost_steps=0,
                lost_s=0.0,
                first_step_at=begin + 20,
                restart_s=20.0,
                gpus=None,
                seconds={"restarting": 20.0, "useful": 5000.0},
            )
        ],
        marks=[],
        outcomes=[Outcome(outcome="running", attempts=1, lost_steps=0, lost_s=0.0, mean_restart_s=None)],
        interval=Interval(planned_s=None, planned_by="", planned_ettr=None, median_used_s=None, used=[], said=[]),
        save_figures=SaveFigures(
            saves=0,
            failed=0,
            median_write_s=None,
            fastest_write_s=None,
            slowest_write_s=None,
            median_stall_s=None,
            bytes=None,
            bytes_in_all=0,
        ),
        saves=[],
        failed_saves=[],
        checkpoints=[],
        ranks=[],
        problems=[],
        notes=[],
    )


def example_fleet() -> FleetReport:
    """Two jobs, and one that could not be read."""
    jobs = [example_report(), second_report()]
    spans = [span for job in jobs for span in job.spans]
    useful, whole = sum(s.seconds for s in spans if s.kind == "useful"), sum(s.seconds for s in spans)
    return FleetReport(
        made_at=max(job.made_at for job in jobs),
        jobs=jobs,
        not_read=[NotRead(job="runs/typo", error="there is no job in runs/typo", remedy="name a job directory")],
        ettr=Ettr(
            share=useful / whole,
            formula="useful / all the time, summed over the jobs",
            with_numbers=f"{useful:.0f} s / {whole:.0f} s = {useful / whole:.1%}",
            running_share=None,
            doubts=[],
        ),
        shares=_shares(spans, gpus=None),
        outcomes=[*_outcomes(), *jobs[1].outcomes],
    )


def _spans() -> list[Span]:
    spans, at = [], BEGAN
    for kind, seconds, attempt in _PIECES:
        spans.append(Span(kind=kind, begin=at, end=at + seconds, attempt=attempt))
        at += seconds
    return spans


def _shares(spans: list[Span], gpus: int | None) -> list[Share]:
    whole = sum(span.seconds for span in spans)
    shares = []
    for kind in KINDS:
        seconds = sum(span.seconds for span in spans if span.kind == kind)
        on_gpus = sum(span.seconds for span in spans if span.kind == kind and span.attempt is not None)
        hours = None if gpus is None else on_gpus * gpus / 3600
        shares.append(Share(kind=kind, seconds=seconds, share=seconds / whole, gpu_hours=hours))
    return shares


_ENDS = {
    1: ("killed", "ended by SIGKILL", 137, "restart: killed by a signal; may pass"),
    2: ("preempted", "SIGTERM; saved and stopped", 75, "hand back: the scheduler asked for the nodes"),
    3: (
        "hang",
        'rank 1 has stood still for 5 min 5 s after step 5650 in phase "step" (limit 5 min 0 s)',
        137,
        "restart: a hang may pass",
    ),
    4: ("launcher lost", "nobody saw its end: the launcher was killed, or its node failed", None, ""),
    5: ("finished", "all steps are done", 0, "done: all steps are done"),
}
_STEPS = {
    1: (0, 3480, 3000, 480),
    2: (3000, 5000, 5000, 0),
    3: (5000, 5890, 5500, 390),
    4: (5500, 7000, 7000, 0),
    5: (7000, 12000, 12000, 0),
}


def _attempts(spans: list[Span]) -> list[AttemptLine]:
    lines = []
    for number, (outcome, reason, code, decided) in _ENDS.items():
        mine = [span for span in spans if span.attempt == number]
        seconds: dict[str, float] = {}
        for span in mine:
            seconds[span.kind] = seconds.get(span.kind, 0.0) + span.seconds
        from_step, reached, saved, lost_steps = _STEPS[number]
        lines.append(
            AttemptLine(
                attempt=number,
                began=mine[0].begin,
                ended=mine[-1].end,
                is_end_seen=number != 4,
                how="fresh" if number == 1 else "resumed",
                from_checkpoint="" if number == 1 else f"{from_step:012d}-{number - 1:04d}",
                is_from_memory=number == 4,
                is_standby=number == 4,
                is_inner=False,
                outcome=outcome,
                reason=reason,
                exit_code=code,
                decided=decided,
                from_step=from_step,
                reached_step=reached,
                saved_step=saved,
                saves=sum(kind == "saving" and of == number for kind, _, of in _PIECES),
                lost_steps=lost_steps,
                lost_s={1: 240.0, 3: 441.0}.get(number, 0.0),
                is_loss_known=number != 4,
                first_step_at=None if number == 1 else mine[0].end,
                restart_s=mine[0].seconds,
                host=f"n{16 + number}",
                allocation="slurm 4711" + (f", restart {1 if number < 5 else 2}" if number > 2 else ""),
                nodes=[f"n{16 + number}"],
                gpus=2,
                seconds=seconds,
            )
        )
    return lines


def _marks(spans: list[Span]) -> list[Mark]:
    ends = {number: max(s.end for s in spans if s.attempt == number) for number in _ENDS}
    return [
        Mark(at=ends[1], attempt=1, kind="fault", what="killed", text="ended by SIGKILL", step=3480),
        Mark(at=ends[2] - 12, attempt=2, kind="stop asked", what="SIGTERM", text="SIGTERM", step=5000),
        Mark(at=ends[2], attempt=2, kind="fault", what="preempted", text="SIGTERM; saved and stopped", step=5000),
        Mark(
            at=ends[3] - 316, attempt=3, kind="trouble", what="save failed", text="No space left on device", step=5600
        ),
        Mark(at=ends[3] - 6, attempt=3, kind="hang", what="hang", text=_ENDS[3][1], step=5890),
        Mark(at=ends[3], attempt=3, kind="fault", what="hang", text=_ENDS[3][1], step=5890),
        Mark(at=ends[4], attempt=4, kind="fault", what="launcher lost", text=_ENDS[4][1], step=7000),
        Mark(at=ends[5], attempt=5, kind="finished", what="finished", text="all steps are done", step=12000),
    ]


def _outcomes() -> list[Outcome]:
    return [
        Outcome(outcome="killed", attempts=1, lost_steps=480, lost_s=240.0, mean_restart_s=39.0),
        Outcome(outcome="preempted", attempts=1, lost_steps=0, lost_s=0.0, mean_restart_s=2455.0),
        Outcome(outcome="hang", attempts=1, lost_steps=390, lost_s=441.0, mean_restart_s=35.0),
        Outcome(outcome="launcher lost", attempts=1, lost_steps=0, lost_s=0.0, mean_restart_s=2728.0),
        Outcome(outcome="finished", attempts=1, lost_steps=0, lost_s=0.0, mean_restart_s=None),
    ]


def _saves(spans: list[Span]) -> list[Save]:
    steps = iter([1500, 3000, 5000, 5500, 12000])
    saves = []
    for span in spans:
        if span.kind == "saving" and span.attempt is not None:
            step = next(steps)
            saves.append(
                Save(
                    attempt=span.attempt,
                    step=step,
                    at=span.end,
                    name=f"{step:012d}-{span.attempt:04d}",
                    bytes=1_600_000_000,
                    write_s=5.2 + step / 3000,
                    stall_s=span.seconds,
                    stage="/local/ada" if step == 1500 else "",
                    promoted_at=span.end + 30 if step == 1500 else None,
                )
            )
    return saves


def _checkpoints(saves: list[Save], made_at: float) -> list[Checkpoint]:
    newest, before = saves[-1], saves[-2]
    ranks = [RankWrite(rank=r, bytes=800_000_000, write_s=w) for r, w in ((0, 4.4), (1, 8.1))]
    good = Checkpoint(
        name=newest.name,
        step=newest.step,
        attempt=newest.attempt,
        state="good",
        problem="",
        created=newest.at,
        age_s=made_at - newest.at,
        bytes=1_600_000_000,
        world_size=2,
        is_last_good=True,
        is_pinned=True,
        stage="",
        verified="no",
        verified_by="",
        verified_at=None,
        ranks=ranks,
    )
    return [
        good,
        msgspec.structs.replace(
            good,
            name=before.name,
            step=before.step,
            attempt=before.attempt,
            created=before.at,
            age_s=made_at - before.at,
            is_last_good=False,
            is_pinned=False,
            verified="restored",
            verified_by="attempt 4, which resumed from it",
            verified_at=before.at + 500,
        ),
        msgspec.structs.replace(
            good,
            name="000000003000-0001",
            step=3000,
            attempt=1,
            state="rejected",
            problem="rank-00001.safetensors: bytes 0 to 4194304 (block 0) do not match their checksum",
            created=saves[1].at,
            age_s=made_at - saves[1].at,
            is_last_good=False,
            is_pinned=False,
            verified="failed",
            verified_by="attempt 2",
            verified_at=saves[1].at + 300,
            ranks=[
                RankWrite(rank=0, bytes=800_000_000, write_s=5.6),
                RankWrite(rank=1, bytes=800_000_000, write_s=None),
            ],
        ),
    ]
