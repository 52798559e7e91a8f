"""`lastgood pin`: protects a checkpoint from retention, or releases it."""

import argparse

from lastgood.cli import arguments


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_job(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=arguments.NAMES)
    parser.add_argument("--reason", metavar="TEXT", default="", help="why; shown by `lastgood ls`")
    parser.add_argument("--release", action="store_true", help="remove the pin: retention may delete it again")
    parser.epilog = """\
examples:
  lastgood pin runs/exp1 1200 --reason "start of the sweep"
  lastgood pin runs/exp1 1200 --release

May be used while the job runs. A pinned checkpoint is kept by `lastgood prune` and by the
job's own retention until it is released.
"""


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.answers import PinAnswer
    from lastgood.cli.jobs import open_named
    from lastgood.core import layout
    from lastgood.core.errors import UsageError
    from lastgood.store import durable
    from lastgood.store.catalogue import clear_mark, set_mark
    from lastgood.store.survey import State, find, survey

    if parsed.release and parsed.reason:
        raise UsageError("--release and --reason contradict each other", remedy="give one of them")
    job = open_named(parsed.job)
    chosen = find(job, survey(job), parsed.checkpoint)
    with durable.explained("write the mark into", job.checkpoints / chosen.name, safe="the checkpoint was not touched"):
        if parsed.release:
            clear_mark(job, chosen.name, layout.PINNED_FILE)
        else:
            set_mark(job, chosen.name, layout.PINNED_FILE, parsed.reason or "no reason given")
    was_pinned = bool(chosen.listed.pinned)
    reason = "" if parsed.release else parsed.reason or "no reason given"
    if parsed.json:
        path = output.plain(str(job.path))
        output.put_json(PinAnswer(path, chosen.name, not parsed.release, reason, was_pinned))
    elif parsed.release:
        output.put(f"{chosen.name} is released" if was_pinned else f"{chosen.name} was not pinned")
    else:
        output.put(f"{chosen.name} is pinned: {output.plain(reason)}")
    if chosen.state is not State.GOOD and not parsed.release:
        output.note(f"{chosen.name} is not good: {output.plain(chosen.problem)}")
    return 0
