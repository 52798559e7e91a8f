"""`lastgood report`: all about a job, or several: where the time went, what was saved, what was lost."""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lastgood.core.errors import LastgoodError, NoSuchJobError, UsageError

if TYPE_CHECKING:
    from lastgood.report.model import FleetReport
    from lastgood.report.saving import Planned
    from lastgood.report.textual import Screen
    from lastgood.store.jobdir import JobDirectory

FORMATS = ("text", "json", "csv", "html", "openmetrics")

_MOST_NAMED = 4

EPILOG = """\
examples:
  lastgood report runs/exp1
  lastgood report runs/exp1 --format html --output exp1.html
  lastgood report runs/* --format csv > attempts.csv
  lastgood report runs/exp1 --plan plan.json

Reads journals and manifests, and changes nothing; may be used while the job runs. What nothing tells is
left out, and said: it never guesses. docs/how-to/report.md says how each figure is counted.

exit codes:
   0  there is a report of each job
  65  one is damaged; the others are reported on
  66  there is no such job; the others are reported on
  69  a number of a Slurm job was given, and Slurm cannot be asked
  74  one could not be read; the others are reported on
  76  one was written by a newer version; the others are reported on
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "jobs",
        metavar="JOB",
        nargs="+",
        help="a job's directory, or the number of a Slurm job that runs it; several make a report of all",
    )
    add(
        "--format",
        choices=FORMATS,
        default="text",
        help="text for a terminal (the default); json: all of it; csv: a row for each attempt; html: one page that needs "
        "nothing else; openmetrics: for the textfile collector of Prometheus' node exporter",
    )
    add("--json", action="store_true", help="the same as --format json")
    add("--output", metavar="FILE", help="write it there, in place of an older file, instead of printing it")
    add(
        "--plan",
        metavar="FILE",
        help="what `lastgood plan --json` printed, to compare with (default: what the job was submitted with)",
    )
    add("--verify", action="store_true", help="read all of every checkpoint, as `lastgood verify` does")
    add("--all", action="store_true", help="text: cut no list short")
    parser.epilog = EPILOG


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import output
    from lastgood.cli.noted_plan import noted_plan
    from lastgood.report.collect import fleet_of, not_read, report_on, with_copies_noted

    _check_output(parsed.output)
    planned = None if parsed.plan is None else _planned(parsed.plan)
    reports, bad = [], []
    code = 0
    seen: set[str] = set()
    for name in parsed.jobs:
        try:
            job = _open(name)
            place = os.path.realpath(job.path)
            if place in seen:
                continue
            seen.add(place)
            reports.append(report_on(job, planned or noted_plan(job), is_verified=parsed.verify))
        except LastgoodError as error:
            if len(parsed.jobs) == 1:
                raise
            output.note(str(error))
            bad.append(not_read(name, error))
            code = code or error.exit_code
    if not reports:
        return code
    reports = with_copies_noted(reports)
    text = _text(fleet_of(reports, bad, time.time()), "json" if parsed.json else parsed.format, parsed)
    if parsed.output is None or parsed.output == "-":
        output.put(text.removesuffix("\n"))
    else:
        _write(Path(parsed.output), text)
    return code


def _check_output(name: str | None) -> None:
    """Raises UsageError for what can be no file."""
    if name == "" or (name is not None and os.path.isdir(name)):
        what = "a name is empty" if not name else "it is a directory"
        raise UsageError(f"--output {name!r}: {what}", remedy="name the file to write")


def _open(name: str) -> "JobDirectory":
    """Raises what `open_named` does; where there are jobs below the directory, the error names them."""
    from lastgood.cli.jobs import open_named
    from lastgood.core.layout import JOB_FILE
    from lastgood.core.quoting import shown

    try:
        return open_named(name)
    except NoSuchJobError as error:
        try:
            below = sorted(
                entry.path for entry in os.scandir(name) if os.path.exists(os.path.join(entry.path, JOB_FILE))
            )
        except OSError:
            below = []
        if not below:
            raise
        named = " ".join(map(shown, below[:_MOST_NAMED])) + (" ..." if len(below) > _MOST_NAMED else "")
        raise NoSuchJobError(
            error.what, safe=error.safe, remedy=f"there are jobs in it: lastgood report {named}"
        ) from error


def _planned(name: str) -> "Planned":
    """What the file of a plan says. Raises what `read_plan` does."""
    import msgspec

    from lastgood.cli.plan_options import content_of
    from lastgood.plan.document import MOST_BYTES, read_plan
    from lastgood.report.saving import Planned

    data = content_of("--plan", name, MOST_BYTES)
    plan = read_plan(data, name, safe="")
    try:
        share = msgspec.json.decode(data)["cost"]["effective_share"]
    except (msgspec.DecodeError, LookupError, TypeError):
        share = None
    is_share = isinstance(share, int | float) and 0 <= share <= 1
    return Planned(plan.interval_s, name, float(share) if is_share else None)


def _text(fleet: "FleetReport", form: str, parsed: argparse.Namespace) -> str:
    """Each form's module is imported where it is asked for: some are large."""
    if form == "json":
        import msgspec

        return msgspec.json.format(msgspec.json.encode(fleet), indent=2).decode() + "\n"
    if form == "csv":
        from lastgood.report.tables import csv_of

        return csv_of(fleet)
    if form == "openmetrics":
        from lastgood.report.openmetrics import openmetrics_of

        return openmetrics_of(fleet)
    if form == "html":
        from lastgood.report import html

        return html.page_of(fleet)
    from lastgood.report import terminal

    return terminal.page_of(fleet, _screen(is_file=parsed.output not in (None, "-")), is_all=parsed.all) + "\n"


def _screen(*, is_file: bool) -> "Screen":
    """What standard output, or a file, can show."""
    from lastgood.report.textual import LEAST_WIDTH, MOST_WIDTH, Screen

    if is_file or sys.stdout is None:
        return Screen()
    is_unicode = _has_blocks(sys.stdout.encoding or "utf-8")
    if not sys.stdout.isatty():
        return Screen(is_unicode=is_unicode)
    width = min(max(shutil.get_terminal_size().columns, LEAST_WIDTH), MOST_WIDTH)
    is_coloured = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Screen(width, is_coloured, is_unicode)


def _has_blocks(encoding: str) -> bool:
    """Whether bars and lines of Unicode can be shown. In the locale C Python writes UTF-8, but nobody said that it is read."""
    import locale

    try:
        "█▒┃╌".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return locale.nl_langinfo(locale.CODESET).lower().replace("-", "") == "utf8"


def _write(path: Path, text: str) -> None:
    from lastgood.store import durable

    data = text.encode(errors="backslashreplace")
    with durable.explained("write", path, safe="an older file of that name is untouched"):
        durable.write_shared_file(path, data)
