"""`lastgood history`: what became of each attempt, by our journals and by Slurm's accounting.

With --sacct it is about all jobs of a cluster: see accounting_report.
"""

import argparse
import os
import time
from typing import TYPE_CHECKING

from lastgood.cli import accounting_report

if TYPE_CHECKING:
    from lastgood.cli.answers import HistoryAnswer, HistoryAttempt, HistoryRun
    from lastgood.core.accounting import Account, Record
    from lastgood.launch.standing import Standing
    from lastgood.schedulers.slurm_history import Run


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job",
        metavar="JOB",
        nargs="?",
        help="the job's directory, or the number of a Slurm job that runs it (default: LASTGOOD_JOB, or the directory "
        "that you are in)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    accounting_report.configure(parser)
    parser.epilog = """\
examples:
  lastgood history runs/exp1
  lastgood history 4711
  lastgood history --sacct --since 90d --partition gpu
  lastgood history --sacct jobs.txt --saved-every 30min
  sacct -a -X --duplicates -P ... | lastgood history --sacct - --json > failures.json

Works without Slurm too, from the journals alone. LOST counts the steps that had to be done again, GPU-H
the GPU-hours spent on them; "?" where nobody saw the last step. Where Slurm says something else than our
journal, a line begins with "!". "to effect": the share of the time in which steps were done that count,
the effective training time ratio; time in the queue, of starts and of lost steps is the rest.

With --sacct: what failures cost a whole cluster, with the uncertainty of each rate. `lastgood plan --history` reads
what --json prints. docs/how-to/failure-history.md says what counts as a failure, and what as lost.
"""


def execute(parsed: argparse.Namespace) -> int:
    if parsed.sacct is not None:
        return accounting_report.execute(parsed)
    accounting_report.check(parsed)
    return _one_job(parsed)


def _one_job(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.jobs import open_named
    from lastgood.core.layout import Env
    from lastgood.launch.history import read_records
    from lastgood.launch.standing import standing_of
    from lastgood.store.durable import explained

    job = open_named(parsed.job or os.environ.get(Env.JOB, "") or ".")
    standing = standing_of(job)
    with explained("read the attempts in", job.attempts):
        records = {record.number: record for record in read_records(job)}
    runs, note = _accounting(list(records.values()))
    answer = _answer(standing, records, runs, note, time.time())
    if parsed.json:
        output.put_json(answer)
    else:
        output.put(_text(answer))
    return 0


def _accounting(records: "list[Record]") -> "tuple[list[Run], str]":
    from lastgood.schedulers.slurm_commands import SlurmCommands
    from lastgood.schedulers.slurm_history import run_told, runs_of

    told = [run_told(event).job_id for record in records if (event := record.first("allocation")) is not None]
    ids = list(dict.fromkeys(job_id for job_id in told if job_id))
    rows, note = SlurmCommands(os.environ).history(ids)
    known = set(ids)
    # Asked for the number of an array, which its first task has too, sacct tells of all tasks.
    return [run for run in runs_of(rows) if run.job_id in known], note


def _answer(
    standing: "Standing", records: "dict[int, Record]", runs: "list[Run]", note: str, now: float
) -> "HistoryAnswer":
    from lastgood.cli import output
    from lastgood.cli.answers import HistoryAnswer

    attempts = _attempts(standing, records, runs)
    ran_s = sum(max((a.ended or now) - a.began, 0.0) for a in standing.attempts if not a.is_inner)
    span_s = 0.0
    if standing.attempts:
        last = standing.attempts[-1]
        span_s = max((now if last.ended is None else last.ended) - standing.attempts[0].began, 0.0)
    gpu_hours = [a.lost_gpu_hours for a in attempts if a.lost_gpu_hours is not None]
    return HistoryAnswer(
        job=output.plain(standing.job),
        id=standing.id,
        state=standing.state.value,
        attempts=attempts,
        lost_steps=standing.lost_steps,
        lost_s=standing.lost_s,
        lost_gpu_hours=sum(gpu_hours) if gpu_hours else None,
        run_s=ran_s,
        span_s=span_s,
        effective_share=max(ran_s - standing.lost_s, 0.0) / span_s if span_s > 0 else None,
        note=output.plain(note),
    )


def _attempts(standing: "Standing", records: "dict[int, Record]", runs: "list[Run]") -> "list[HistoryAttempt]":
    """In order of time; with the runs of Slurm in which no attempt began."""
    from lastgood.cli.answers import HistoryAttempt
    from lastgood.launch.standing import State
    from lastgood.schedulers.slurm_history import disagreement, matching, run_told

    rows: list[HistoryAttempt] = []
    used: set[tuple[str, float | None]] = set()
    last_in_run: dict[tuple[str, float | None], int] = {}
    matched: dict[int, Run] = {}
    for account in standing.attempts:
        event = records[account.number].first("allocation") if account.number in records else None
        if event is not None:
            run = matching(run_told(event), account.began, runs)
            matched[account.number] = run
            used.add((run.job_id, run.began))
            last_in_run[run.job_id, run.began] = account.number
    for account in standing.attempts:
        found = matched.get(account.number)
        said = ""
        if found is not None and last_in_run[found.job_id, found.began] == account.number:
            said = disagreement(
                found,
                account.outcome,
                _exit_code(records[account.number]),
                is_job_finished=standing.state is State.FINISHED,
                is_last=account.number == standing.attempts[-1].number,
            )
        rows.append(_attempt(account, found, said))
    rows += [
        HistoryAttempt(
            None, run.began, run.ended, "", "", None, None, 0, 0.0, True, None, _run(run), "no attempt began in it"
        )
        for run in runs
        if run.began is not None and (run.job_id, run.began) not in used
    ]
    return sorted(rows, key=lambda row: row.began)


def _exit_code(record: "Record") -> int | None:
    """What the launcher ended with."""
    decided = record.last("decided")
    code = decided.data.get("exit_code") if decided is not None else None
    return code if isinstance(code, int) else None


def _attempt(a: "Account", run: "Run | None", said: str) -> "HistoryAttempt":
    from lastgood.cli import output
    from lastgood.cli.answers import HistoryAttempt

    gpus = run.gpus if run is not None else None
    return HistoryAttempt(
        attempt=a.number,
        began=a.began,
        ended=a.ended,
        outcome=a.outcome,
        reason=output.plain(a.reason),
        from_step=a.from_step,
        reached_step=a.reached_step,
        lost_steps=a.lost_steps,
        lost_s=a.lost_s,
        is_loss_known=a.is_loss_known,
        lost_gpu_hours=None if gpus is None else a.lost_s * gpus / 3600,
        slurm=None if run is None else _run(run),
        disagreement=said,
    )


def _run(run: "Run") -> "HistoryRun":
    from lastgood.cli import output
    from lastgood.cli.answers import HistoryRun

    return HistoryRun(
        job_id=output.plain(run.job_id),
        state=output.plain(run.state),
        exit_code=output.plain(run.exit_code),
        began=run.began,
        ended=run.ended,
        nodes=[output.plain(node) for node in run.nodes],
        gpus=run.gpus,
        restart_count=run.restart_count,
        partition=output.plain(run.partition),
    )


def _text(answer: "HistoryAnswer") -> str:
    from lastgood.cli import output
    from lastgood.core.units import duration

    lines = [f"job   {answer.job} (id {answer.id}), {answer.state}"]
    if answer.attempts:
        lost = f"{answer.lost_steps} steps, {duration(answer.lost_s)}" if answer.lost_steps else "nothing"
        if any(not a.is_loss_known for a in answer.attempts):
            lost += ", and more that nobody saw"
        if answer.lost_gpu_hours:
            lost += f", {_hours(answer.lost_gpu_hours)} GPU-hours"
        lines += [f"lost  {lost}", f"ran   {_ran(answer)}"]
    if answer.note:
        first, *others = output.wrap(f"no accounting of Slurm: {answer.note}", output.WIDTH - 6)
        lines += [f"note  {first}", *(" " * 6 + other for other in others)]
    if answer.attempts:
        lines += ["", _table(answer)]
    return "\n".join(lines)


def _ran(answer: "HistoryAnswer") -> str:
    from lastgood.core.units import duration

    ran = f"{duration(answer.run_s)} in the {duration(answer.span_s)} since the first attempt began"
    return ran if answer.effective_share is None else f"{ran}, {answer.effective_share:.1%} to effect"


def _table(answer: "HistoryAnswer") -> str:
    from lastgood.cli import output
    from lastgood.core.units import duration
    from lastgood.schedulers.slurm_text import compress_hosts

    columns = {
        "#": ["-" if a.attempt is None else str(a.attempt) for a in answer.attempts],
        "BEGAN (UTC)": [time.strftime("%m-%d %H:%M:%S", time.gmtime(a.began)) for a in answer.attempts],
        "TOOK": ["-" if a.ended is None else duration(max(a.ended - a.began, 0.0)) for a in answer.attempts],
        "WHERE": [output.shorten(compress_hosts(a.slurm.nodes), 16) if a.slurm else "" for a in answer.attempts],
        "TO": ["-" if a.reached_step is None else str(a.reached_step) for a in answer.attempts],
        "LOST": [_lost(a) for a in answer.attempts],
        "GPU-H": [_hours(a.lost_gpu_hours) if a.lost_gpu_hours else "" for a in answer.attempts],
        "HOW IT ENDED": [_how_it_ended(a) for a in answer.attempts],
    }
    # The last column needs the room.
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    right = [i for i, name in enumerate(shown) if name in ("#", "TOOK", "TO", "LOST", "GPU-H")]
    return output.table(list(shown), list(zip(*shown.values(), strict=True)), right=right, most_lines=8)


def _lost(a: "HistoryAttempt") -> str:
    if a.is_loss_known:
        return str(a.lost_steps) if a.lost_steps else ""
    return f"{a.lost_steps}+" if a.lost_steps else "?"


def _how_it_ended(a: "HistoryAttempt") -> str:
    lines = []
    if a.attempt is not None:
        ours = a.outcome or "running"
        lines.append(ours if not a.reason else a.reason if a.outcome in a.reason else f"{ours}: {a.reason}")
    if a.slurm is not None:
        restarts = f", restart {a.slurm.restart_count}" if a.slurm.restart_count else ""
        code = a.slurm.exit_code if a.slurm.ended is not None else ""
        lines.append(f"Slurm: {a.slurm.job_id} {a.slurm.state} {code}".rstrip() + restarts)
    if a.disagreement:
        lines.append(f"! {a.disagreement}")
    return "\n".join(lines)


def _hours(hours: float) -> str:
    return f"{hours:.3g}"
