"""Rows of text as numbers, in a few bytes each. What cannot be true is counted with its place, and left out.

Times are seconds since 1970; where the file has them without a time zone, as if it were that of Greenwich: they are
only compared with each other.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache

import polars as pl

from lastgood.plan.history.endings import ENDINGS, LAUNCH, PROGRAM, REQUEUED, RUN_AGAIN, ending_of
from lastgood.plan.history.endings import is_reason_of_node as _is_of_node
from lastgood.plan.history.misread import MOST_EXAMPLES, Misreadings, quoted
from lastgood.plan.history.rows import LINE
from lastgood.schedulers.slurm_text import NOTHING, expand_hosts

MOST_NODES = 1_000_000
MOST_GPUS = 10_000_000
LONGEST_S = 20 * 366 * 86400
_CLOCK_CHANGE_S = 3600 + 60
"""Local times jump by an hour twice a year, and clocks differ."""
_NONE = -(1 << 40)

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "cluster": pl.Categorical,
    "job": pl.Int64,
    "task": pl.Int32,
    "part": pl.Int32,
    "submit": pl.UInt32,
    "start": pl.UInt32,
    "end": pl.UInt32,
    "run_s": pl.UInt32,
    "nodes": pl.UInt32,
    "gpus": pl.UInt32,
    "gpu_type": pl.Categorical,
    "partition": pl.Categorical,
    "node_list": pl.Categorical,
    "failed_node": pl.Categorical,
    "exit_code": pl.Categorical,
    "ending": pl.UInt8,
}
"""Of a run. A job of no array has no task, one of no heterogeneous job no part."""

NO_GPU = "no GPU"
SOME_GPU = "GPU of no stated type"

_ID = r"^(\d{1,18})(?:_(\d{1,9}|\[[^\]]*\]))?(?:\+(\d{1,9}))?(\..+)?$"
_TYPE = r"gres/gpu:([^=,]+)=(\d+)"


class ValueReader:
    """Tables of text in, runs out. `steps` are the rows that belong to steps of a job."""

    def __init__(self, misread: Misreadings, only: Mapping[str, Collection[str]] | None = None) -> None:
        """`only`: the values that a column must have for its row to count."""
        self._misread = misread
        self._only = only or {}
        self.rows = 0
        self.steps = 0
        self.is_epoch: bool | None = None
        """Whether times are seconds since 1970; None before the first."""

    def runs(self, table: pl.DataFrame) -> pl.DataFrame:
        """The runs of jobs in a table of text, without the rows of steps and those that cannot be true."""
        self.rows += table.height
        has = set(table.columns)
        table = table.with_columns(pl.col(pl.String).str.strip_chars())
        ids = pl.col("job" if "job" in has else "job_raw").str.extract_groups(_ID)
        table = table.with_columns(ids.struct.rename_fields(["base", "task", "part", "step"]).alias("id")).unnest("id")
        all_rows = table.height
        table = table.filter(pl.col("step").is_null())
        self.steps += all_rows - table.height
        for name, wanted in self._only.items():
            table = table.filter(pl.col(name).is_in(list(wanted)))
        if not table.height:
            return pl.DataFrame(schema=SCHEMA)
        values = table.select(
            LINE,
            pl.col("base").cast(pl.Int64, strict=False).alias("job"),
            pl.col("task").cast(pl.Int32, strict=False),
            pl.col("part").cast(pl.Int32, strict=False),
            *(self._time(table, name) for name in ("submit", "start", "end")),
            _run_s(has),
            _nodes(table),
            *_gpus(table),
            *(_words(has, name) for name in ("cluster", "partition", "node_list", "failed_node", "exit_code")),
            _ending(table),
            *(pl.col(name).alias(f"said_{name}") for name in has & _SHOWN),
        )
        values = _with_lengths(values, has)
        return self._checked(values, has).select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())

    def _time(self, table: pl.DataFrame, name: str) -> pl.Expr:
        """Seconds; -1 for what is no time, null where there is none."""
        if name not in table.columns:
            return pl.lit(None, pl.Int64).alias(name)
        if self.is_epoch is None:
            some = table[name].filter(~table[name].str.to_lowercase().is_in([*NOTHING, "0"])).drop_nulls()
            if some.len():
                self.is_epoch = some[0].isdigit()
        text = pl.col(name)
        number = text.cast(pl.Int64, strict=False) if self.is_epoch else _wall_clock(text)
        is_none = text.str.to_lowercase().is_in([*NOTHING, "0"])
        return pl.when(is_none).then(None).otherwise(number.fill_null(-1)).alias(name)

    def _checked(self, values: pl.DataFrame, has: set[str]) -> pl.DataFrame:
        checks = _checks(has)
        problem = pl.coalesce(pl.when(is_wrong).then(pl.lit(i, pl.Int8)) for i, (is_wrong, _, _) in enumerate(checks))
        values = values.with_columns(problem=problem)
        wrong = values.filter(pl.col("problem").is_not_null())
        if not wrong.height:
            return values
        for (code,), rows in wrong.group_by("problem", maintain_order=True):
            _, what, columns = checks[int(code)]
            shown = [name for name in columns if name in has]
            examples = [
                f"line {row[LINE]}: "
                + ", ".join(f"{_SAID[name]} {quoted(row[f'said_{name}'] or '')}" for name in shown)
                for row in rows.head(MOST_EXAMPLES).iter_rows(named=True)
            ]
            self._misread.add(what, rows.height, examples)
        return values.filter(pl.col("problem").is_null())


_SAID = {
    "job": "JobID",
    "job_raw": "JobIDRaw",
    "state": "State",
    "submit": "Submit",
    "start": "Start",
    "end": "End",
    "elapsed_s": "ElapsedRaw",
    "elapsed": "Elapsed",
    "n_nodes": "NNodes",
    "alloc_nodes": "AllocNodes",
    "node_list": "NodeList",
    "tres": "AllocTRES",
}
_SHOWN = set(_SAID)
_TIMES = ["submit", "start", "end"]


def _checks(has: set[str]) -> list[tuple[pl.Expr, str, list[str]]]:
    """(is it wrong?, what is wrong, columns to show), the first that holds counts."""
    start, end, run_s, nodes = (pl.col(name) for name in ("start", "end", "run_s", "nodes"))
    ran = ~_is_waiting() & (run_s > 0)
    return [
        (pl.col("job").is_null(), "no number of a job", ["job", "job_raw"]),
        (pl.col("ending").is_null(), "a state that Slurm does not have", ["state"]),
        (pl.any_horizontal(pl.col(_TIMES) < 0), "a time that is none, or of another kind than the first", _TIMES),
        (
            pl.any_horizontal(pl.col(_TIMES) > 2**32 - 1),
            "a time that is none, or of another kind than the first",
            _TIMES,
        ),
        (run_s == _NONE, "a duration that is none", ["elapsed_s", "elapsed"]),
        (end < start - _CLOCK_CHANGE_S, "it ended before it began", ["start", "end"]),
        (run_s < 0, "it ended before it began", ["start", "end"]),
        (run_s > LONGEST_S, "a duration of more than 20 years", ["elapsed_s", "elapsed", "start", "end"]),
        (
            run_s > end - start + _CLOCK_CHANGE_S,
            "it ran for longer than from its start to its end",
            ["start", "end", "elapsed_s", "elapsed"],
        ),
        (run_s.is_null() & ~_is_waiting(), "nothing tells how long it ran", ["state", "start", "end"]),
        (ran & (nodes.is_null() | (nodes < 1)), "nothing tells on how many nodes it ran", _NODES),
        (nodes > MOST_NODES, f"more than {MOST_NODES:,} nodes", _NODES),
        (nodes < 0, "a number of nodes that is none", _NODES),
        (pl.col("gpus") > MOST_GPUS, f"more than {MOST_GPUS:,} GPUs", ["tres"]),
    ]


_NODES = ["n_nodes", "alloc_nodes", "node_list", "tres"]


def _is_waiting() -> pl.Expr:
    return pl.col("ending") == ENDINGS[-1].code


def _wall_clock(text: pl.Expr) -> pl.Expr:
    text = text.str.replace(" ", "T", literal=True)
    return text.str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False).dt.epoch("s")


def _run_s(has: set[str]) -> pl.Expr:
    """Seconds by the accounting itself; _NONE for what is no duration, null where it says nothing."""
    found: list[pl.Expr] = []
    if "elapsed_s" in has:
        text = pl.col("elapsed_s")
        found.append(pl.when(text != "").then(_or_none(text.cast(pl.Int64, strict=False))))
    if "elapsed" in has:
        text = pl.col("elapsed")
        parts = text.str.extract_groups(r"^(?:(\d{1,6})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,2})(?:\.\d+)?$")
        days, hours, minutes, seconds = (parts.struct.field(str(i)).cast(pl.Int64) for i in range(1, 5))
        whole = days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + seconds
        found.append(pl.when(text != "").then(_or_none(whole)))
    return pl.coalesce(*found, pl.lit(None, pl.Int64)).alias("run_s")


def _or_none(seconds: pl.Expr) -> pl.Expr:
    return pl.when(seconds >= 0).then(seconds).otherwise(_NONE)


def _with_lengths(values: pl.DataFrame, has: set[str]) -> pl.DataFrame:
    """Where the accounting does not say how long it ran: from start to end. What never began ran for no time."""
    between = pl.col("end") - pl.col("start")
    if has & {"elapsed_s", "elapsed"}:
        between = pl.when(between >= 0).then(between)
    never = pl.when(pl.col("start").is_null() & pl.lit("start" in has)).then(0)
    values = values.with_columns(run_s=pl.coalesce("run_s", between, never))
    # Slurm has no start of a run that was preempted or requeued before its database had heard of it.
    before = pl.when((pl.col("run_s") >= 0) & (pl.col("end") >= pl.col("run_s"))).then(pl.col("end") - pl.col("run_s"))
    return values.with_columns(start=pl.coalesce("start", before))


def _nodes(table: pl.DataFrame) -> pl.Expr:
    """-1 for what is no number."""
    has = set(table.columns)
    found: list[pl.Expr] = []
    for name in ("n_nodes", "alloc_nodes"):
        if name in has:
            text = pl.col(name)
            found.append(pl.when(text != "").then(text.cast(pl.Int64, strict=False).fill_null(-1)))
    if "tres" in has:
        found.append(pl.col("tres").str.extract(r"(?:^|,)node=(\d{1,15})(?:,|$)").cast(pl.Int64))
    if "node_list" in has and not has & {"n_nodes", "alloc_nodes"}:
        counts = {text: _count_hosts(text) for text in table["node_list"].unique().drop_nulls()}
        found.append(pl.col("node_list").replace_strict(counts, default=None, return_dtype=pl.Int64))
    return pl.coalesce(found).alias("nodes")


@lru_cache(100_000)
def _count_hosts(text: str) -> int | None:
    if text.lower() == "none assigned":
        return 0
    try:
        return len(expand_hosts(text)) or None
    except ValueError:
        return -1


def _gpus(table: pl.DataFrame) -> list[pl.Expr]:
    if "tres" not in table.columns:
        return [pl.lit(None, pl.Int64).alias("gpus"), pl.lit(None, pl.String).alias("gpu_type")]
    told = {text: _gpus_told(text) for text in table["tres"].unique().drop_nulls()}
    number = {text: count for text, (count, _) in told.items()}
    kind = {text: name for text, (_, name) in told.items()}
    return [
        pl.col("tres").replace_strict(number, default=None, return_dtype=pl.Int64).alias("gpus"),
        pl.col("tres").replace_strict(kind, default=None, return_dtype=pl.String).alias("gpu_type"),
    ]


@lru_cache(200_000)
def _gpus_told(tres: str) -> tuple[int | None, str | None]:
    """(GPUs, their type) in a list of resources."""
    import re

    from lastgood.schedulers.slurm_history import gpus_in

    count = gpus_in(tres)
    if not count:
        return count, None if count is None else NO_GPU
    types = sorted({name for name, number in re.findall(_TYPE, tres) if int(number)})
    return count, "+".join(types) or SOME_GPU


def _words(has: set[str], name: str) -> pl.Expr:
    """Text of which few are different; null where Slurm says that there is none."""
    if name not in has:
        return pl.lit(None, pl.String).alias(name)
    text = pl.col(name)
    return pl.when(~text.str.to_lowercase().is_in([*NOTHING, "none assigned"])).then(text).alias(name)


def _ending(table: pl.DataFrame) -> pl.Expr:
    """The code of an ending; null for an unknown state."""
    found = {text: ending_of(text) for text in table["state"].unique().drop_nulls()}
    codes = {text: ending.code for text, ending in found.items() if ending is not None}
    code = pl.col("state").replace_strict(codes, default=None, return_dtype=pl.UInt8)
    if "exit_code" in table.columns:
        # With an exit code the job itself has asked to be run again, at its time limit for instance.
        asked = ~pl.col("exit_code").str.starts_with("0:") & (pl.col("exit_code") != "")
        code = pl.when((code == REQUEUED.code) & asked).then(pl.lit(RUN_AGAIN.code, pl.UInt8)).otherwise(code)
    if "reason" in table.columns:
        of_node = [text for text in table["reason"].unique().drop_nulls() if _is_of_node(text)]
        is_launch = (code == PROGRAM.code) & pl.col("reason").is_in(of_node)
        code = pl.when(is_launch).then(pl.lit(LAUNCH.code, pl.UInt8)).otherwise(code)
    return code.alias("ending")
