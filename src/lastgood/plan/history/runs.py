"""All runs of an accounting in one table, sorted by job and time, each of them once.

A run takes about 60 bytes, and sorting needs that several times: memory grows with the rows, slowly, and not with the
length of what sacct prints for each.
"""

from collections.abc import Collection, Mapping

import msgspec
import polars as pl

from lastgood.core.errors import DamagedError, UsageError
from lastgood.plan.history.endings import CANCELLED, CANCELLED_BY_ROOT, DEADLINE, REVOKED, RUNNING, WAITING
from lastgood.plan.history.heading import ASK, Heading, missing_figures, read_heading
from lastgood.plan.history.lines import PIECE_BYTES, Piece, Readable, pieces_of
from lastgood.plan.history.misread import Misread, Misreadings
from lastgood.plan.history.rows import RowReader
from lastgood.plan.history.values import SCHEMA, ValueReader

KEY = ["cluster", "job", "task", "part"]
_ANOTHER_JOB_S = 180 * 86400
"""Slurm's numbers begin anew after some millions: what comes so long after is another job."""


class Reading(msgspec.Struct):
    """`table` has the columns of values.SCHEMA, and `job_number`, `is_followed` (the job ran again), `wait_s` (until then)."""

    table: pl.DataFrame
    rows: int
    steps: int
    duplicates: int
    joined: int
    not_started: int
    is_epoch: bool
    misread: list[Misread]
    notes: list[str]

    @property
    def attempts_are_missing(self) -> bool:
        """Jobs would have run again, but there is none of which two runs are told."""
        table = self.table
        has_times = table["start"].null_count() < table.height or table["submit"].null_count() < table.height
        return table.height > 0 and has_times and table["job_number"].n_unique() == table.height


def read_runs(
    raw: Readable,
    where: str,
    *,
    delimiter: str | None = None,
    only: Mapping[str, Collection[str]] | None = None,
    piece_bytes: int = PIECE_BYTES,
) -> Reading:
    """Everything that sacct printed; with `only` the rows that have these values (`{"partition": ["gpu"]}`).

    Raises UsageError, DamagedError, each with the place.
    """
    misread = Misreadings()
    values = ValueReader(misread, only)
    heading: Heading | None = None
    rows: RowReader | None = None
    tables: list[pl.DataFrame] = [pl.DataFrame(schema=SCHEMA)]
    not_started = 0
    for piece in pieces_of(raw, where, piece_bytes):
        if rows is None:
            line, _, rest = piece.text.partition("\n")
            if not line.strip():
                raise UsageError(
                    f"{where}, line 1: an empty line in place of the heading",
                    safe="nothing was counted",
                    remedy=f"make the file with: {ASK}",
                )
            heading = read_heading(line, where, delimiter)
            for name in set(only or {}) - set(heading.places):
                raise UsageError(
                    f"{where} has no column {name.capitalize()}, which --{name} needs",
                    safe="nothing was counted",
                    remedy=f"leave out --{name}, or ask sacct for the column",
                )
            rows = RowReader(heading, misread)
            piece = Piece(rest, piece.first_line + 1, piece.is_cut_off)
        told = values.runs(rows.rows(piece))
        tables.append(told.filter(~_is_no_run()))
        not_started += told.height - tables[-1].height
    if heading is None or rows is None:
        raise UsageError(
            f"{where} is empty: not even a heading",
            safe="nothing was counted",
            remedy=f"sacct has failed, or was not asked; make the file with: {ASK}",
        )
    rows.give_up()
    count = values.rows + rows.unfit
    _check_share(misread, count, where)
    notes = missing_figures(list(heading.places))
    if rows.is_cut_off:
        notes.append("the file does not end with a line break: its last row may be cut off")
    table, duplicates = _in_order(tables)
    return Reading(
        table=table,
        rows=count,
        steps=values.steps,
        duplicates=duplicates,
        joined=rows.joined,
        not_started=not_started,
        is_epoch=bool(values.is_epoch),
        misread=misread.all,
        notes=notes,
    )


def _check_share(misread: Misreadings, rows: int, where: str) -> None:
    """Figures from the smaller part of the rows would say more about the file than about the cluster."""
    if misread.rows * 2 <= rows:
        return
    most = max(misread.all, key=lambda found: found.rows)
    raise DamagedError(
        f"{misread.rows:,} of {rows:,} rows of {where} cannot be understood, most because of {most.what}; "
        f"{'; '.join(most.examples)}",
        safe="nothing was counted",
        remedy=f"look at these lines; a delimiter that is also in the values is a frequent reason. {ASK}",
    )


def _is_no_run() -> pl.Expr:
    of_wish = pl.col("ending").is_in([ending.code for ending in (CANCELLED, CANCELLED_BY_ROOT, DEADLINE, RUNNING)])
    # What was ended within its first second has nodes, and no length. Where no nodes are told, length decides.
    never = (pl.col("run_s") == 0) & of_wish & pl.col("node_list").is_null()
    return pl.col("ending").is_in([WAITING.code, REVOKED.code]) | never


def _in_order(parts: list[pl.DataFrame]) -> tuple[pl.DataFrame, int]:
    """(runs, rows that are there twice). Empties the list: there is room for two copies of all rows, not for four."""
    table = pl.concat(parts)
    parts.clear()
    by_key = [pl.col("cluster").to_physical(), *(pl.col(name) for name in KEY[1:])]
    table = table.sort([*by_key, pl.col("start"), pl.col("submit"), pl.col("run_s")], nulls_last=True)
    count = table.height
    # Two dumps of overlapping times have the same run twice; the longer one is the newer.
    is_next_same = pl.lit(True)
    for name in [*KEY, "start", "submit"]:
        is_next_same &= pl.col(name).eq_missing(pl.col(name).shift(-1))
    # Without any moment nothing tells two runs of a job from one run that is there twice.
    known = pl.any_horizontal(pl.col("start", "submit").is_not_null())
    is_last_row = pl.int_range(pl.len()) == pl.len() - 1
    is_kept = table.select(~(is_next_same & known) | is_last_row).to_series()
    kept = table if is_kept.all() else table.filter(is_kept)
    is_same_job = pl.lit(True)
    for name in KEY:
        is_same_job &= pl.col(name).eq_missing(pl.col(name).shift(1))
    is_soon = (_moment("start") - _moment("end").shift(1)).fill_null(0) < _ANOTHER_JOB_S
    is_first = ~(is_same_job & is_soon) | (pl.int_range(pl.len()) == 0)
    kept = kept.with_columns(job_number=is_first.cum_sum().cast(pl.UInt32))
    is_followed = (pl.col("job_number") == pl.col("job_number").shift(-1)).fill_null(False)
    # From an end to the next start; from its submission, where nothing tells the end.
    wait_s = _moment("start").shift(-1) - pl.coalesce(_moment("end"), _moment("submit").shift(-1))
    kept = kept.with_columns(
        is_followed=is_followed, wait_s=pl.when(is_followed).then(wait_s.clip(0)).cast(pl.UInt32, strict=False)
    )
    return kept, count - kept.height


def _moment(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Int64)
