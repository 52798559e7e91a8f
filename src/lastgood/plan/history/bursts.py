"""Which ends belong together: runs that die within seconds, and those that end at one moment.

An array of which 256 tasks die at once because a file is missing is one mistake, and a node that kills whatever it is
given is one broken node. Counted run by run, either would suggest an interval of seconds. Failures of one kind within
the same minute (a switch, a power cut, one large job that preempts many) are all counted, but tell less about the rate:
see core.poisson.
"""

import polars as pl

from lastgood.plan.history.endings import OUT_OF_MEMORY, PROGRAM

SHORT_S = 60
"""What lives less has done nothing yet."""
FEWEST = 3
_PAUSE_S = 600
"""A node that has not killed anything for so long has been mended, or this is something else."""


def with_events(ends: pl.DataFrame) -> pl.DataFrame:
    """Adds `burst` and `burst_number` (which one, null for none), `is_repeat` (not the first of its burst), and `minute` (of the end).

    `ends`: the runs that ended by themselves or by a failure, with the columns of values.SCHEMA.
    """
    ends = ends.with_row_index("row").with_columns(
        minute=pl.coalesce(pl.col("end").cast(pl.Int64) // 60, -1 - pl.col("row").cast(pl.Int64))
    )
    short = ends.filter(pl.col("run_s") < SHORT_S)
    if short.height < FEWEST:
        return ends.with_columns(
            burst=pl.lit(None, pl.String), burst_number=pl.lit(None, pl.Int64), is_repeat=pl.lit(False)
        )
    # A mistake in the program stays one, however slowly an array gets its nodes.
    is_mistake = pl.col("ending").is_in([PROGRAM.code, OUT_OF_MEMORY.code])
    of_jobs = _chains(short, ["cluster", "job"], is_mistake).with_columns(burst=pl.format("job {}", "job"))
    alone = short.join(of_jobs.select("row"), on="row", how="anti").with_columns(
        place=pl.coalesce(pl.col("failed_node").cast(pl.String), pl.col("node_list").cast(pl.String))
    )
    of_nodes = _chains(alone.filter(pl.col("place").is_not_null()), ["cluster", "place"], pl.lit(False))
    bursts = pl.concat(
        [
            of_jobs.select("row", "burst", burst_number=pl.col("chain").cast(pl.Int64)),
            of_nodes.select(
                "row", pl.format("node {}", "place").alias("burst"), burst_number=-pl.col("chain").cast(pl.Int64)
            ),
        ]
    ).with_columns(is_repeat=pl.col("row") != pl.col("row").first().over("burst_number"))
    found = ends.join(bursts, on="row", how="left", maintain_order="left")
    return found.with_columns(pl.col("is_repeat").fill_null(False))


def _chains(short: pl.DataFrame, by: list[str], for_ever: pl.Expr) -> pl.DataFrame:
    """Short runs that follow each other soon (or whenever, where `for_ever`), with the number of their chain, in order."""
    by = [*by, "ending"]
    short = short.sort(*by, "end", nulls_last=True)
    same = pl.lit(True)
    for name in by:
        same &= pl.col(name).eq_missing(pl.col(name).shift(1))
    goes_on = same & ((pl.col("end").cast(pl.Int64).diff() <= _PAUSE_S) | for_ever)
    short = short.with_columns(chain=(~goes_on.fill_null(False)).cum_sum())
    return short.filter(pl.len().over("chain") >= FEWEST)


def sizes_of(failures: pl.DataFrame) -> list[tuple[int, int]]:
    """(failures in one event, number of such events), for core.poisson."""
    counted = failures.filter(~pl.col("is_repeat"))
    sizes = counted.group_by("ending", "minute").len("size")["size"].value_counts(name="number")
    return sorted((int(size), int(number)) for size, number in sizes.iter_rows())
