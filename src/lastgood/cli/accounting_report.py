"""`lastgood history --sacct`: what failures cost a whole cluster or project, by Slurm's accounting."""

import argparse
import importlib.util
import os
import sys
import time
from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

    from lastgood.plan.history.answer import AccountingAnswer
    from lastgood.plan.history.exposure import Window

LIVE_DAYS = 30
LIVE_LIMIT_S = 600.0

_OPTIONS = ("delimiter", "since", "until", "user", "partition", "saved_every", "csv")
"""Of --sacct only."""


def configure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for a whole cluster or project")
    group.add_argument(
        "--sacct",
        metavar="FILE",
        nargs="?",
        const="",
        help="answer for all jobs in FILE, the output of sacct -P or -p (- reads standard input); without FILE sacct is asked",
    )
    group.add_argument(
        "--since",
        metavar="WHEN",
        help=f"look at the time from here: 2026-01-31, 2026-01-31T12:00 or 30d (ago); "
        f"where sacct is asked {LIVE_DAYS}d unless stated",
    )
    group.add_argument("--until", metavar="WHEN", help="look at the time up to here (default: now, or the whole file)")
    group.add_argument("--user", metavar="NAMES", help="only the jobs of these users, separated by commas")
    group.add_argument("--partition", metavar="NAMES", help="only the runs in these partitions, separated by commas")
    group.add_argument(
        "--saved-every",
        metavar="DURATION",
        help="the jobs save so often (30min): a failure loses half of it. Without it all that a failed run had done is lost",
    )
    group.add_argument(
        "--delimiter", metavar="TEXT", help="what stands between the columns of FILE (default: as in its heading)"
    )
    group.add_argument("--csv", action="store_true", help="print one CSV table with all rates instead of text")


def check(parsed: argparse.Namespace) -> None:
    """Raises UsageError for options that do not go together."""
    from lastgood.core.errors import UsageError

    if parsed.sacct is None:
        for name in _OPTIONS:
            if getattr(parsed, name):
                option = "--" + name.replace("_", "-")
                raise UsageError(f"{option} goes with --sacct", remedy=f"lastgood history --sacct {option} ...")
        return
    if parsed.job is not None:
        raise UsageError(
            f"--sacct answers for all jobs, not for {parsed.job!r}", remedy="leave out one of them, or put FILE last"
        )
    if parsed.json and parsed.csv:
        raise UsageError("--json or --csv, not both")
    if parsed.sacct == "" and parsed.delimiter:
        raise UsageError("--delimiter is of a file, and none is given", remedy="lastgood history --sacct FILE ...")


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import accounting_text, output

    check(parsed)
    answer = _answer(parsed)
    if parsed.json:
        output.put_json(answer)
    elif parsed.csv:
        output.put(accounting_text.csv_of(answer))
    else:
        output.put(accounting_text.text_of(answer))
    return 0


def _answer(parsed: argparse.Namespace) -> "AccountingAnswer":
    from lastgood.core.errors import UsageError
    from lastgood.core.units import parse_duration

    if importlib.util.find_spec("polars") is None:
        raise UsageError("lastgood history --sacct needs the package polars", remedy="pip install 'lastgood[history]'")
    saved_every_s = parse_duration(parsed.saved_every) if parsed.saved_every else None
    if saved_every_s is not None and saved_every_s <= 0:
        raise UsageError(f"--saved-every {parsed.saved_every}: an interval is longer than nothing")
    now = datetime.fromtimestamp(time.time())
    since = moment(parsed.since, now, "--since") if parsed.since else None
    until = moment(parsed.until, now, "--until") if parsed.until else None
    if parsed.sacct == "":
        since = since or moment(f"{LIVE_DAYS}d", now, "--since")
        until = until or now
    if since is not None and until is not None and since >= until:
        raise UsageError(f"--since {since:%Y-%m-%dT%H:%M} is not before --until {until:%Y-%m-%dT%H:%M}")
    only = {name: _names(getattr(parsed, name), name) for name in ("user", "partition") if getattr(parsed, name)}
    if parsed.sacct == "":
        assert since is not None and until is not None
        return _ask(since, until, only, saved_every_s)
    return _read(parsed.sacct, since, until, only, parsed.delimiter, saved_every_s)


def _read(
    name: str,
    since: datetime | None,
    until: datetime | None,
    only: "dict[str, list[str]]",
    delimiter: str | None,
    saved_every_s: float | None,
) -> "AccountingAnswer":
    from lastgood.core.errors import UsageError
    from lastgood.plan.history.figures import figures_of
    from lastgood.plan.history.runs import read_runs
    from lastgood.store.durable import explained

    where = "standard input" if name == "-" else name
    with ExitStack() as closing, explained("read", where):
        if os.path.isdir(name):
            raise UsageError(f"{name} is a directory", remedy="give the file that sacct's output is in")
        raw = _input(closing, name)
        reading = read_runs(raw, where, delimiter=_unescaped(delimiter), only=only)
    if reading.attempts_are_missing:
        reading.notes.append(
            "no job ran twice: if sacct was asked without --duplicates, the failed runs of jobs that were requeued are "
            "missing, and every rate is too low"
        )
    return figures_of(
        reading, where, window=_window(since, until, is_epoch=reading.is_epoch), saved_every_s=saved_every_s
    )


def _input(closing: ExitStack, name: str) -> "BinaryIO":
    from lastgood.core.errors import UsageError

    if name != "-":
        try:
            return closing.enter_context(open(name, "rb"))
        except FileNotFoundError as error:
            raise UsageError(f"there is no file {name}") from error
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("nothing comes from standard input", remedy="sacct ... -P | lastgood history --sacct -")
    return sys.stdin.buffer


def _ask(
    since: datetime, until: datetime, only: "dict[str, list[str]]", saved_every_s: float | None
) -> "AccountingAnswer":
    import shlex

    from lastgood.cli import output
    from lastgood.plan.history.figures import figures_of
    from lastgood.plan.history.runs import read_runs
    from lastgood.schedulers.slurm_accounting import Stream, fields_of_sacct, words_of_sacct

    fields = fields_of_sacct(os.environ)
    words = words_of_sacct(fields, since, until, users=only.get("user", ()), partitions=only.get("partition", ()))
    command = shlex.join(words)
    output.note(f"asks {command}")
    with Stream(words, os.environ, LIVE_LIMIT_S) as stream:
        reading = read_runs(stream, "the answer of sacct")
    if not only.get("user"):
        reading.notes.append("where accounting data are private, sacct tells a user of no jobs but their own")
    return figures_of(
        reading, command, window=_window(since, until, is_epoch=True), saved_every_s=saved_every_s, told="sacct"
    )


def _window(since: datetime | None, until: datetime | None, *, is_epoch: bool) -> "Window":
    from lastgood.plan.history.exposure import Window, moment_of

    return Window(
        None if since is None else moment_of(since, is_epoch=is_epoch),
        None if until is None else moment_of(until, is_epoch=is_epoch),
    )


def moment(text: str, now: datetime, option: str) -> datetime:
    """A day, a moment, or how long ago.

    >>> moment("2d", datetime(2026, 1, 31, 12), "--since"), moment("2026-01-01", datetime(2026, 1, 31), "--since")
    (datetime.datetime(2026, 1, 29, 12, 0), datetime.datetime(2026, 1, 1, 0, 0))
    """
    from datetime import timedelta

    from lastgood.core.errors import UsageError
    from lastgood.core.units import parse_duration

    if text == "now":
        return now
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is None else found.astimezone().replace(tzinfo=None)
    except ValueError:
        pass
    try:
        return now - timedelta(seconds=parse_duration(text))
    except (UsageError, OverflowError):
        raise UsageError(
            f"{option} {text!r} is no moment", remedy="write 2026-01-31, 2026-01-31T12:00, now, or how long ago: 30d"
        ) from None


def _names(text: str, option: str) -> list[str]:
    from lastgood.core.errors import UsageError

    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"--{option} {text!r}: a name is empty")
    return names


def _unescaped(delimiter: str | None) -> str | None:
    r"""What a shell cannot pass on easily.

    >>> _unescaped(r"\t")
    '\t'
    """
    return None if delimiter is None else delimiter.replace("\\t", "\t")
