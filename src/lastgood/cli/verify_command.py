"""`lastgood verify`: reads checkpoints and checks every byte."""

import argparse
import os
from typing import TYPE_CHECKING

from lastgood.cli import arguments

if TYPE_CHECKING:
    from lastgood.cli.answers import VerifiedCheckpoint, VerifyResult
    from lastgood.store.jobdir import JobDirectory
    from lastgood.store.survey import Surveyed


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_job(parser)
    parser.add_argument(
        "checkpoints", metavar="CHECKPOINT", nargs="*", help=f"{arguments.NAMES} (default: every committed one)"
    )
    parser.add_argument(
        "--clear-rejected", action="store_true", help="remove the mark `rejected` from those that turn out whole"
    )
    parser.epilog = """\
examples:
  lastgood verify runs/exp1
  lastgood verify runs/exp1 last && sbatch next.sh

exit codes:
   0  all of them are whole
  65  at least one is damaged; the others were still read
  66  there is no such job or checkpoint, or nothing to verify
  74  something could not be read, which says nothing about its content
  76  one was written by a newer version

Only reads, except for --clear-rejected. May be used while the job runs.
"""


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.answers import VerifyAnswer
    from lastgood.cli.jobs import open_named
    from lastgood.core.errors import NoSuchJobError
    from lastgood.store.survey import State, find, survey

    job = open_named(parsed.job)
    surveyed = survey(job)
    if parsed.checkpoints:
        chosen = list({s.name: s for s in (find(job, surveyed, wanted) for wanted in parsed.checkpoints)}.values())
    else:
        chosen = [s for s in surveyed if s.state is not State.INCOMPLETE]
    if not chosen:
        raise NoSuchJobError(f"{job.path} has no committed checkpoint: there is nothing to verify")
    verified = []
    whole_constants: set[str] = set()
    for one in chosen:
        result = _verify(job, one, parsed.clear_rejected, whole_constants)
        if result is None:
            output.note(f"{one.name} was deleted while it was being read")
            continue
        verified.append(result)
        if not parsed.json:
            output.put("\n".join(_lines(result)))
    if parsed.json:
        output.put_json(VerifyAnswer(output.plain(str(job.path)), verified))
    elif len(verified) > 1:
        output.put(f"{sum(v.result == 'whole' for v in verified)} of {len(verified)} are whole")
    return _exit_code([v.result for v in verified])


def _exit_code(results: list[str]) -> int:
    """The worst of what was found: damage is certain, an input/output error only a failed attempt to know."""
    from lastgood.core.errors import DamagedError, FormatVersionError, StorageError

    codes = {"damaged": DamagedError, "unreadable": StorageError, "newer format": FormatVersionError}
    return next((error.exit_code for result, error in codes.items() if result in results), 0)


def _verify(
    job: "JobDirectory", one: "Surveyed", may_clear: bool, whole_constants: set[str]
) -> "VerifiedCheckpoint | None":
    from lastgood.cli.answers import VerifiedCheckpoint
    from lastgood.core import layout
    from lastgood.store import durable
    from lastgood.store.catalogue import clear_mark

    result, problems = _read(job, one, whole_constants)
    if problems and not os.path.lexists(job.checkpoints / one.name / layout.MANIFEST_FILE):
        return None
    rejected = one.listed.rejected
    is_cleared = may_clear and result == "whole" and bool(rejected)
    if is_cleared:
        with durable.explained("remove the mark from", job.checkpoints / one.name):
            clear_mark(job, one.name, layout.REJECTED_FILE)
    return VerifiedCheckpoint(
        name=one.name,
        step=one.listed.step,
        attempt=one.listed.attempt,
        result=result,
        bytes=one.manifest.bytes if one.manifest else 0,
        problems=problems,
        rejected="" if is_cleared else rejected,
        was_cleared=is_cleared,
    )


def _read(job: "JobDirectory", one: "Surveyed", whole_constants: set[str]) -> "tuple[VerifyResult, list[str]]":
    from lastgood.core.errors import DamagedError, NoSuchJobError
    from lastgood.store.reader import open_checkpoint
    from lastgood.store.survey import State

    if one.state is State.NEWER:
        return "newer format", [one.problem]
    if one.manifest is None:
        return ("unreadable" if one.state is State.UNREADABLE else "damaged"), [one.problem]
    try:
        problems = open_checkpoint(job, one.name).verify(whole_constants)
    except (DamagedError, NoSuchJobError) as error:
        problems = [error.what]
    except OSError as error:
        return "unreadable", [f"cannot read it: {error.strerror or error}"]
    return ("damaged" if problems else "whole"), problems


def _lines(v: "VerifiedCheckpoint") -> list[str]:
    from lastgood.cli import output
    from lastgood.core import units

    size = f", {units.byte_size(v.bytes)}" if v.result == "whole" else ""
    lines = [f"{v.name}  {v.result}{size}"]
    for problem in v.problems:
        lines += ["  " + line for line in output.wrap(problem, output.WIDTH - 2, "  ")]
    if v.was_cleared:
        lines.append("  its mark `rejected` was removed: the next start may use it")
    elif v.rejected and v.result == "whole":
        text = f"it is marked as rejected ({v.rejected}) and no start will use it; --clear-rejected removes the mark"
        lines += ["  " + line for line in output.wrap(text, output.WIDTH - 2, "  ")]
    return lines
