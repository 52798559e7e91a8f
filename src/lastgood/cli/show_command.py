"""`lastgood show`: what is in a checkpoint."""

import argparse
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lastgood.cli import arguments

if TYPE_CHECKING:
    from lastgood.cli.answers import ShowAnswer
    from lastgood.store.rank_state import RankState


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_job(parser)
    arguments.add_optional_checkpoint(parser)
    parser.add_argument(
        "--rank", metavar="N", type=arguments.at_least(0), default=0, help="whose state to show (default: 0)"
    )
    parser.epilog = """\
examples:
  lastgood show runs/exp1
  lastgood show runs/exp1 1200 --json

The headers of the data files are read and checked, the arrays themselves are not: that is
`lastgood verify`.
"""


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.answers import ShowAnswer, ShownArray
    from lastgood.cli.jobs import open_named
    from lastgood.store import durable
    from lastgood.store.rank_state import rank_state
    from lastgood.store.reader import open_checkpoint
    from lastgood.store.survey import find, survey

    job = open_named(parsed.job)
    chosen = find(job, survey(job), parsed.checkpoint)
    with durable.explained("read the checkpoint", job.checkpoints / chosen.name):
        checkpoint = open_checkpoint(job, chosen.name)
        state = rank_state(checkpoint, parsed.rank)
    manifest = checkpoint.manifest
    answer = ShowAnswer(
        job=output.plain(str(job.path)),
        name=manifest.name,
        step=manifest.step,
        attempt=manifest.attempt,
        created=manifest.created,
        write_s=manifest.write_s,
        bytes=manifest.bytes,
        constants_bytes=manifest.constants_bytes,
        world_size=manifest.world_size,
        rank_bytes=[part.bytes + part.data_bytes for part in manifest.parts],
        metrics=manifest.metrics,
        config=manifest.config,
        fingerprint=manifest.fingerprint,
        rejected=chosen.listed.rejected,
        pin_reason=chosen.listed.pinned,
        rank=state.rank,
        arrays=[
            ShownArray(name, held.placed.spec.dtype, list(held.placed.spec.shape), held.placed.spec.nbytes, held.rank)
            for name, held in state.arrays.items()
        ],
        entries=state.entries,
    )
    if parsed.json:
        output.put_json(answer)
    else:
        output.put("\n".join(_text(answer, state)))
    return 0


def _text(answer: "ShowAnswer", state: "RankState") -> list[str]:
    from lastgood.cli import output
    from lastgood.cli.treeview import tree_lines
    from lastgood.core import units

    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(answer.created))
    age = units.duration(time.time() - answer.created)
    facts = [
        ("step", str(answer.step)),
        ("attempt", str(answer.attempt)),
        ("committed", f"{when}, {age} ago; written in {units.duration(answer.write_s)}"),
        ("size", f"{units.byte_size(answer.bytes)}, by {answer.world_size} rank(s)"),
        (
            "constants",
            f"{units.byte_size(answer.constants_bytes)}, written once for several checkpoints"
            if answer.constants_bytes
            else "",
        ),
        ("ranks", ", ".join(map(units.byte_size, answer.rank_bytes)) if answer.world_size > 1 else ""),
        ("rejected", answer.rejected),
        ("pinned", answer.pin_reason),
        ("metrics", _pairs({name: f"{value:.6g}" for name, value in answer.metrics.items()})),
        ("config", _pairs(answer.config)),
        ("written by", _pairs(answer.fingerprint)),
    ]
    rows = [fact for fact in facts if fact[1]]
    lines = [*output.table(["checkpoint", answer.name], rows).split("\n"), "", f"state of rank {answer.rank}"]
    for name, skeleton in state.entries.items():
        lines += ["  " + line for line in tree_lines(name, skeleton, state.arrays)]
    return lines


def _pairs(mapping: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(mapping.items()))
