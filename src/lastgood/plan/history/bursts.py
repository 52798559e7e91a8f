"""Which ends belong together: runs that die within seconds, and those that end at one moment.

An array of which 256 tasks die at once because a file is missing is one mistake, and a node that kills whatever it is
given is one broken node. Counted run by run, either would suggest an interval of seconds. Failures of one kind within
the same minute (a switch, a power cut, one large job that preempts many) are all counted, but tell less about the rate:
see core.poisson.
"""

import polars as pl

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
    of_job = ["cluster", "job", "ending"]
    many = short.filter(pl.len().over(of_job) >= FEWEST)
    arrays = many.select("row", *of_job, burst=pl.format("job {}", "job"))
    alone = short.join(arrays.select("row"), on="row", how="anti")
    nodes = _of_nodes(alone)
    bursts = pl.concat(
        [
            arrays.select("row", "burst", burst_number=pl.struct(of_job).rank("dense").cast(pl.Int64)),
            nodes.select("row", "burst", burst_number=-1 - pl.col("chain").cast(pl.Int64)),
        ],
    ).with_columns(is_repeat=pl.col("row") != pl.col("row").min().over("burst_number"))
    found = ends.join(bursts, on="row", how="left", maintain_order="left")
    return found.with_columns(pl.col("is_repeat").fill_null(False))


def _of_nodes(short: pl.DataFrame) -> pl.DataFrame:
    """Short runs on the same node (or nodes), one soon after the other."""
    place = pl.coalesce(pl.col("failed_node").cast(pl.String), pl.col("node_list").cast(pl.String))
    placed = short.with_columns(place=place).filter(pl.col("place").is_not_null() & pl.col("end").is_not_null())
    placed = placed.sort("cluster", "place", "ending", "end")
    same = pl.lit(True)
    for name in ("cluster", "place", "ending"):
        same &= pl.col(name).eq_missing(pl.col(name).shift(1))
    goes_on = same & (pl.col("end").cast(pl.Int64).diff() <= _PAUSE_S)
    placed = placed.with_columns(chain=(~goes_on).fill_null(True).cum_sum())
    return placed.filter(pl.len().over("chain") >= FEWEST).select("row", "chain", burst=pl.format("node {}", "place"))


def sizes_of(failures: pl.DataFrame) -> list[tuple[int, int]]:
    """(failures in one event, number of such events), for core.poisson."""
    counted = failures.filter(~pl.col("is_repeat"))
    sizes = counted.group_by("ending", "minute").len("size")["size"].value_counts(name="number")
    return sorted((int(size), int(number)) for size, number in sizes.iter_rows())
