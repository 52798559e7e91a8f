"""`lastgood ls`: what checkpoints a job has."""

import argparse
import time
from typing import TYPE_CHECKING

from lastgood.cli import arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lastgood.cli.answers import ListedCheckpoint
    from lastgood.store.jobdir import JobDirectory
    from lastgood.store.survey import Surveyed


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_job(parser)
    parser.epilog = """\
example:
  lastgood ls runs/exp1

"good" means: committed, its manifest passes its checks, and it never failed to restore.
Whether every byte behind it is whole, `lastgood verify` tells. Checkpoints that are staged
on this node and not in the job's own directory are listed, too. Directories that lastgood
did not make are not.
"""


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.answers import LsAnswer
    from lastgood.cli.jobs import open_named
    from lastgood.store.survey import State, last_good, survey

    job = open_named(parsed.job)
    found = [(s, "") for s in survey(job)]
    here = {s.name for s, _ in found if s.state is State.GOOD}
    found += [(s, stage) for s, stage in _staged(job) if s.name not in here]
    found.sort(key=lambda one: one[0].listed.age_key, reverse=True)
    newest = last_good([s for s, _ in found])
    now = time.time()
    listed = [_describe(s, stage, s is newest, now) for s, stage in found]
    answer = LsAnswer(output.plain(str(job.path)), job.id, listed)
    if parsed.json:
        output.put_json(answer)
    elif answer.checkpoints:
        output.put(_table(answer.checkpoints))
    else:
        output.put(f"no checkpoints in {answer.job}")
    return 0


def _staged(job: "JobDirectory") -> "Iterator[tuple[Surveyed, str]]":
    """What is committed on stages of this node, and where. One that cannot be read is passed over."""
    from contextlib import suppress

    from lastgood.core.errors import LastgoodError
    from lastgood.store.staging import find_stages
    from lastgood.store.survey import State, survey

    for stage in find_stages(job):
        with suppress(OSError, LastgoodError):
            for one in survey(stage.staged):
                if one.state is not State.INCOMPLETE:
                    yield one, str(stage.path)


def _describe(surveyed: "Surveyed", stage: str, is_last_good: bool, now: float) -> "ListedCheckpoint":
    from lastgood.cli import output
    from lastgood.cli.answers import ListedCheckpoint

    listed, manifest = surveyed.listed, surveyed.manifest
    return ListedCheckpoint(
        name=listed.name,
        step=listed.step,
        attempt=listed.attempt,
        state=surveyed.state.value,
        problem=surveyed.problem,
        is_last_good=is_last_good,
        is_pinned=bool(listed.pinned),
        pin_reason=listed.pinned,
        is_set_aside=listed.is_set_aside,
        stage=output.plain(stage),
        created=manifest.created if manifest else None,
        age_s=now - manifest.created if manifest else None,
        bytes=manifest.bytes if manifest else None,
        world_size=manifest.world_size if manifest else None,
        metrics=manifest.metrics if manifest else {},
    )


def _table(checkpoints: "list[ListedCheckpoint]") -> str:
    from lastgood.cli import output
    from lastgood.core import units

    rows = [
        (
            str(c.step),
            str(c.attempt),
            "-" if c.age_s is None else units.duration(c.age_s),
            "-" if c.bytes is None else units.byte_size(c.bytes),
            _state(c),
        )
        for c in checkpoints
    ]
    return output.table(["STEP", "ATTEMPT", "AGE", "SIZE", "STATE"], rows, right=[0, 1, 2, 3])


def _state(c: "ListedCheckpoint") -> str:
    words = [f"{c.state}: {c.problem}" if c.problem else "last good" if c.is_last_good else c.state]
    if c.is_pinned:
        words.append(f"pinned: {c.pin_reason}")
    if c.stage:
        words.append(f"on this node only, in {c.stage}")
    if c.is_set_aside:
        words.append("set aside by a later --fresh start")
    lines = "; ".join(words)
    metrics = ", ".join(f"{name} {value:.6g}" for name, value in sorted(c.metrics.items()))
    return f"{lines}\n{metrics}" if metrics else lines
