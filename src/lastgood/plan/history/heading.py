"""The first line of what sacct printed: which columns there are, what stands between them, what cannot be answered.

Pure. sacct prints the columns that it is asked for, in that order, with any text between them (`--delimiter`).
"""

import re
from collections.abc import Sequence

import msgspec

from lastgood.core.errors import UsageError

ASK = "sacct -a -X --duplicates -P -S 2026-01-01 -E now -o JobID,State,ExitCode,Submit,Start,End,ElapsedRaw,NNodes,NodeList,AllocTRES,Partition"
"""How to make a file that has everything."""

COLUMNS = {
    "jobid": "job",
    "jobidraw": "job_raw",
    "state": "state",
    "submit": "submit",
    "start": "start",
    "end": "end",
    "elapsedraw": "elapsed_s",
    "elapsed": "elapsed",
    "nnodes": "n_nodes",
    "allocnodes": "alloc_nodes",
    "nodelist": "node_list",
    "failednode": "failed_node",
    "alloctres": "tres",
    "partition": "partition",
    "exitcode": "exit_code",
    "reason": "reason",
    "cluster": "cluster",
    "user": "user",
}
"""Columns that are read, by their name in lower case."""

_FREE_TEXT = frozenset(["comment", "admincomment", "systemcomment", "jobname", "submitline", "workdir", "extra"])
"""Columns in which people write what they like, also line breaks."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_ROW_BEGIN = re.compile(r"\d+(?:[_+.]\S+)?\W")


class Heading(msgspec.Struct, frozen=True):
    """How the rows below it are to be cut."""

    names: tuple[str, ...]
    delimiter: str
    is_closed: bool
    """Every line ends with the delimiter, as with `sacct -p`."""
    line: str

    @property
    def gaps(self) -> int:
        """How often the delimiter is in a whole row."""
        return len(self.names) - 1 + self.is_closed

    @property
    def places(self) -> dict[str, int]:
        """Where the columns are that we read."""
        found: dict[str, int] = {}
        for place, name in enumerate(self.names):
            if (role := COLUMNS.get(name.lower())) is not None:
                found.setdefault(role, place)
        return found

    @property
    def ends_in_free_text(self) -> bool:
        """A line that is no row may then be the rest of the row above it."""
        return not self.is_closed and self.names[-1].lower() in _FREE_TEXT

    @property
    def begins_in_free_text(self) -> bool:
        """A line that is no row may then be the begin of the row below it."""
        return self.names[0].lower() in _FREE_TEXT


def read_heading(line: str, where: str, delimiter: str | None = None) -> Heading:
    """The heading that this first line is. Raises UsageError, which says what it is instead.

    >>> [read_heading(text, "f").delimiter for text in ("JobID|State|Elapsed|NNodes|", "JobID, State, Elapsed, NNodes")]
    ['|', ', ']
    """
    text = line.removeprefix("\ufeff").strip("\r\n")
    if delimiter and delimiter not in text:
        raise _no_heading(
            where,
            f"the delimiter {delimiter!a} is not in it: {_short(text)}",
            "leave out --delimiter, or correct it",
        )
    words = text.split(delimiter) if delimiter else _NAME.findall(text)
    named = [word for word in words if word.strip().lower() in COLUMNS]
    if text[:1] in ("{", "["):
        raise _no_heading(where, "this is JSON", "ask sacct with -P (--parsable2) in place of --json")
    if _ROW_BEGIN.match(text) and not {"JobID", "State"} & set(named):
        raise _no_heading(
            where, f"a row in place of the heading: {_short(text)}", "ask sacct without -n (--noheader); " + _example()
        )
    if not named:
        raise _no_heading(where, f"no heading of sacct: {_short(text)}", _example())
    between = delimiter if delimiter else _between(text, where)
    names = text.split(between)
    is_closed = len(names) > 1 and not names[-1].strip()
    names = [name.strip() for name in (names[:-1] if is_closed else names)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _no_heading(where, f"the column {twice[0]!r} is there twice", "ask sacct for each column once")
    heading = Heading(tuple(names), between, is_closed, line.strip("\r\n"))
    _check_required(heading, where)
    return heading


def missing_figures(places: Sequence[str]) -> list[str]:
    """What cannot be said without the columns that are not there, one sentence each.

    >>> missing_figures(["job", "state", "elapsed_s", "n_nodes", "node_list", "tres", "partition", "exit_code", "submit", "start"])
    ['no End: failures at one moment are not known as one event, and no trend']
    """
    has = set(places)
    rest = [
        (not has & {"submit", "start"}, "no Submit and no Start: no attempts of a job, and no time in the queue"),
        ("end" not in has, "no End: failures at one moment are not known as one event, and no trend"),
        ("tres" not in has, "no AllocTRES: no GPU-hours, and nothing by type of GPU"),
        ("partition" not in has, "no Partition: nothing by partition"),
        (not has & {"node_list"}, "no NodeList: nothing by node"),
        ("exit_code" not in has, "no ExitCode: REQUEUED counts as a failure also where the job asked for it"),
        ("job" not in has, "JobIDRaw in place of JobID: tasks of one array are not known as such"),
    ]
    return [sentence for is_missing, sentence in rest if is_missing]


def _check_required(heading: Heading, where: str) -> None:
    has = set(heading.places)
    needed = [
        ("JobID", bool(has & {"job", "job_raw"})),
        ("State", "state" in has),
        ("ElapsedRaw (or Elapsed, or Start and End)", bool(has & {"elapsed_s", "elapsed"}) or {"start", "end"} <= has),
        ("NNodes (or AllocNodes, AllocTRES, NodeList)", bool(has & {"n_nodes", "alloc_nodes", "tres", "node_list"})),
    ]
    lacking = [name for name, is_there in needed if not is_there]
    if lacking:
        raise UsageError(
            f"{where}, line 1: there is no column {', and none '.join(lacking)}; "
            f"the columns are {_short(' '.join(heading.names), 200)}",
            safe="nothing was counted",
            remedy=_example(),
        )


def _between(text: str, where: str) -> str:
    """What stands between the names of a heading."""
    gaps = _NAME.sub("\0", text).strip("\0").split("\0")
    inner = [gap for gap in gaps if gap]
    closing = ""
    if inner and not text.endswith(tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")):
        closing = inner.pop()
    kinds = sorted(set(inner))
    if len(kinds) == 1 and not kinds[0].isspace() and closing in ("", kinds[0]):
        return kinds[0]
    if kinds == ["\t"]:
        return "\t"
    if kinds and all(gap.isspace() for gap in kinds):
        raise _no_heading(
            where, "this is the table that sacct prints for people, in which values are cut off", _example()
        )
    raise _no_heading(
        where,
        f"nothing tells what stands between the columns: {_short(text)}",
        "say it with --delimiter, as sacct was told it",
    )


def _no_heading(where: str, what: str, remedy: str) -> UsageError:
    return UsageError(f"{where}, line 1: {what}", safe="nothing was counted", remedy=remedy)


def _example() -> str:
    return f"make the file with: {ASK}"


def _short(text: str, most: int = 60) -> str:
    return ascii(text if len(text) <= most else text[: most - 3] + "...")
