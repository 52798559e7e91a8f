"""`lastgood prune`: deletes checkpoints that need not be kept."""

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lastgood.cli import arguments

if TYPE_CHECKING:
    from lastgood.cli.answers import PruneAnswer
    from lastgood.core.retention import Keep
    from lastgood.store.jobdir import JobDirectory
    from lastgood.store.lock import JobLock
    from lastgood.store.survey import Surveyed


def configure(parser: argparse.ArgumentParser) -> None:
    count = arguments.at_least(1)
    arguments.add_job(parser)
    parser.add_argument("--keep-last", metavar="N", type=count, required=True, help="keep the newest N")
    parser.add_argument("--keep-best", metavar="K", type=count, help="also keep the best K by --metric")
    parser.add_argument("--metric", metavar="NAME", help="a metric that the job logged with run.log")
    parser.add_argument("--mode", choices=("max", "min"), default="max", help="which is better (default: max)")
    parser.add_argument("--keep-every", metavar="N", type=count, help="also keep every step that N divides")
    parser.add_argument("--dry-run", action="store_true", help="say what would be deleted, and touch nothing")
    parser.epilog = """\
examples:
  lastgood prune runs/exp1 --keep-last 2 --dry-run
  lastgood prune runs/exp1 --keep-last 2 --keep-best 1 --metric accuracy

Never deletes the last good checkpoint, nor one that is pinned. Before anything is deleted,
the last good one is read back and checked. What killed attempts left half-written goes
too. What a start with --fresh has set aside, which the job itself leaves alone, is judged by
itself in the same way. Refuses while a launcher runs the job, which prunes by itself (exit code 86).
"""


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.jobs import open_named
    from lastgood.core.errors import UsageError
    from lastgood.core.retention import Keep
    from lastgood.store.lock import lock_job

    if (parsed.keep_best is None) != (parsed.metric is None):
        raise UsageError("--keep-best needs --metric NAME, and the other way round", safe="nothing was deleted")
    keep = Keep(parsed.keep_last, parsed.keep_best or 0, parsed.metric, parsed.mode, parsed.keep_every)
    job = open_named(parsed.job)
    with ExitStack() as stack:
        lock = None if parsed.dry_run else stack.enter_context(lock_job(job))
        answer = _prune(job, keep, lock)
    if parsed.json:
        output.put_json(answer)
    else:
        output.put(_text(answer))
    return 0


def _prune(job: "JobDirectory", keep: "Keep", lock: "JobLock | None") -> "PruneAnswer":
    """Apply `keep`; without a lock only say what would be done."""
    from lastgood.cli import output
    from lastgood.cli.answers import PruneAnswer, PrunedCheckpoint
    from lastgood.store import durable
    from lastgood.store.attempts import attempt_numbers
    from lastgood.store.references import References
    from lastgood.store.survey import State, survey
    from lastgood.store.sweep import Retention, sweep_incomplete

    surveyed = survey(job)
    _check(surveyed, keep)
    sizes = {s.name: s.manifest.bytes if s.manifest else 0 for s in surveyed}
    retention = Retention(job, keep)
    with durable.explained("prune", job.path, safe="the last good checkpoint was not touched"):
        newest = max(attempt_numbers(job), default=0)
        # Without a lock the newest attempt may be running: what it has not committed is its own.
        ended_before = newest + 1 if lock is None or lock.is_held else newest
        deleted = [] if lock is None else retention.apply()
        verdicts = sorted([*deleted, *retention.plan()], key=lambda v: [s.name for s in surveyed].index(v.name))
        if lock is None:
            incomplete = [
                s.name
                for s in surveyed
                if s.state is State.INCOMPLETE and not s.listed.is_link and s.listed.attempt < ended_before
            ]
        else:
            incomplete = sweep_incomplete(job, ended_before)
        # Those of the newest attempt wait for the next one: a save of it may still be under way.
        constants = References(job, newest).sweep() if lock is not None and lock.is_held else []
    return PruneAnswer(
        job=output.plain(str(job.path)),
        is_dry_run=lock is None,
        checkpoints=[PrunedCheckpoint(v.name, v.is_kept, v.reason) for v in verdicts],
        incomplete=incomplete,
        freed_bytes=sum(sizes[v.name] for v in verdicts if not v.is_kept),
        constants=constants,
    )


def _check(surveyed: "list[Surveyed]", keep: "Keep") -> None:
    """Refuse where the settings or the storage make a plan unreliable."""
    from lastgood.core.errors import StorageError, UsageError
    from lastgood.store.survey import State

    for one in surveyed:
        if one.state is State.UNREADABLE:
            raise StorageError(
                f"{one.name}: {one.problem}",
                safe="nothing was deleted: it may be the last good one",
                remedy="prune when it can be read again",
            )
    logged = {name for s in surveyed if s.manifest for name in s.manifest.metrics}
    if keep.metric is not None and surveyed and keep.metric not in logged:
        there = f"these were: {', '.join(sorted(logged))}" if logged else "none was"
        raise UsageError(
            f"no checkpoint has the metric {keep.metric!r}",
            safe="nothing was deleted",
            remedy=f"name one that was logged; {there}",
        )


def _text(answer: "PruneAnswer") -> str:
    from lastgood.cli import output
    from lastgood.core import units

    would = "would be deleted" if answer.is_dry_run else "deleted"
    rows = [(c.name, "kept" if c.is_kept else would, c.reason) for c in answer.checkpoints]
    rows += [(name, would, "incomplete: it was never committed") for name in answer.incomplete]
    rows += [(name, would, "constants that no checkpoint refers to") for name in answer.constants]
    if not rows:
        return f"no checkpoints in {answer.job}"
    count = sum(not c.is_kept for c in answer.checkpoints)
    total = f"{count} of {len(answer.checkpoints)} {would}, {units.byte_size(answer.freed_bytes)}"
    return f"{output.table(['CHECKPOINT', 'VERDICT', 'REASON'], rows)}\n{total}"
