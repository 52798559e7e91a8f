"""What a save of the planned job costs: from its journals, measured, or stated."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lastgood.cli.plan_options import duration_of, optional_duration
from lastgood.core.errors import UsageError
from lastgood.core.interval_choice import SaveCost
from lastgood.core.units import byte_size, duration
from lastgood.plan import quantities

if TYPE_CHECKING:
    from lastgood.plan.journal import Told
    from lastgood.plan.measure import Measured


def journal_of(path: str) -> "Told":
    """Raises what opening a job does."""
    from lastgood.cli.jobs import open_named
    from lastgood.launch.history import read_records
    from lastgood.plan.journal import told_by
    from lastgood.store.durable import explained

    job = open_named(path)
    with explained("read the attempts in", job.attempts):
        return told_by(read_records(job))


def size_of(parsed: argparse.Namespace, told: "Told | None") -> float:
    """Bytes of the state; 0 if nobody said."""
    if parsed.bytes is not None:
        return quantities.parse_bytes(parsed.bytes)
    if parsed.parameters is not None:
        count = quantities.parse_count(parsed.parameters, "--parameters")
        recipe = quantities.RECIPES[parsed.recipe or "adam-mixed"]
        return count * recipe.bytes_each
    return told.bytes if told is not None else 0.0


def save_of(
    parsed: argparse.Namespace, told: "Told | None", wanted: float, nodes: int, notes: list[str]
) -> tuple[SaveCost, str]:
    """What a save costs, and where that is from. Measures, if that was asked for."""
    stall_s = optional_duration("--stall", parsed.stall)
    stall_source = "stall stated"
    if stall_s is None and told is not None and told.stall_s is not None:
        stall_s, stall_source = told.stall_s, "stall from the journal"
    if parsed.measure is not None:
        measured = _measured("--measure", parsed.measure, parsed, wanted, parsed.writers or 1)
        write_s, source = measured.write_s, str(measured)
        if nodes > 1 and parsed.writers is None:
            notes.append(f"measured with one writer for {nodes:,} nodes; as far as storage keeps up: --writers {nodes}")
        if stall_s is None:
            stall_s, speed = _copied(wanted / nodes)
            stall_source = f"stall: a copy of {byte_size(wanted / nodes)} in memory at {byte_size(speed)}/s"
    elif parsed.write is not None:
        write_s, source = duration_of("--write", parsed.write), "stated"
    elif parsed.write_speed is not None:
        speed = quantities.parse_speed(parsed.write_speed)
        if not wanted:
            raise UsageError("--write-speed: of how many bytes?", remedy="give --bytes 14x7e9 or --parameters 7e9")
        write_s, source = wanted / speed, f"{byte_size(wanted)} at a stated {byte_size(speed)}/s"
    else:
        if told is None or told.write_s is None:
            raise UsageError(
                f"--job {parsed.job}: no journal there tells how long a save took",
                remedy="let it save a few times, or give --write 2min or --measure DIR",
            )
        spread = f"{told.fastest_s:.3g} to {told.slowest_s:.3g} s"
        write_s, source = told.write_s, f"journal: median of {told.saves} saves, {spread}"
    if stall_s is None:
        if write_s:
            notes.append(
                "no --stall: the loop is taken to wait for the whole write; lastgood's own saves copy to memory"
            )
        stall_s, stall_source = write_s, "stall taken as the write"
    if stall_s > write_s:
        if parsed.stall is not None:
            raise UsageError(
                f"--stall {parsed.stall} is longer than the write of {duration(write_s)}",
                remedy="the stall is the part of the write that the loop waits for",
            )
        stall_s = write_s
    return SaveCost(stall_s, write_s, round(wanted)), f"{source}; {stall_source}"


def _measured(option: str, directory: str, parsed: argparse.Namespace, wanted: float, writers: int) -> "Measured":
    from lastgood.plan.measure import MOST_BYTES, measure_writes, now_s

    if not wanted:
        raise UsageError(f"{option} {directory}: how many bytes?", remedy="give --bytes 14x7e9 or --parameters 7e9")
    most = MOST_BYTES if parsed.measure_most is None else round(quantities.parse_bytes(parsed.measure_most))
    return measure_writes(Path(directory), wanted, writers=writers, most_bytes=most, clock=now_s)


def _copied(size: float) -> tuple[float, float]:
    from lastgood.plan.measure import copy_speed, now_s

    speed = copy_speed(now_s)
    return size / speed, speed


def local_write_of(parsed: argparse.Namespace, told: "Told | None", wanted: float) -> float | None:
    """Of a save to the node's own disk; None if nothing tells."""
    if parsed.measure_local is not None:
        nodes = parsed.nodes or 1
        return _measured("--measure-local", parsed.measure_local, parsed, wanted, nodes).write_s
    if parsed.local_write is not None:
        return duration_of("--local-write", parsed.local_write)
    return told.stage_write_s if told is not None else None
