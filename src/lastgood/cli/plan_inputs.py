"""From the options of `lastgood plan` to a situation: measured, stated or assumed, and which of these is said."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lastgood.core.errors import DamagedError, UsageError
from lastgood.core.interval_choice import SaveCost
from lastgood.core.units import byte_size, duration, parse_duration
from lastgood.plan import quantities
from lastgood.plan.mechanisms import Cluster
from lastgood.plan.situation import PRESETS, Failures, Situation, assumed_failures

if TYPE_CHECKING:
    from lastgood.plan.journal import Told
    from lastgood.plan.measure import Measured

GPUS_PER_NODE = 8
"""Of the published rates; taken where only GPUs are given."""

DETECTION_S = 60.0
RESTART_S = 300.0
"""As Kokolis et al. take it."""

LONGEST_S = 10 * 365 * 86400.0
MOST_NODES = 1_000_000


class Inputs(msgspec.Struct, frozen=True):
    situation: Situation
    cluster: Cluster
    assumed: list[str]
    """What nobody has said or measured, in words."""
    notes: list[str]
    """What to say beside the plan."""


def inputs_of(parsed: argparse.Namespace) -> Inputs:
    """Measures where that was asked for. Raises UsageError for what cannot be meant."""
    _check(parsed)
    assumed: list[str] = []
    notes: list[str] = []
    nodes, gpus = _size(parsed, notes)
    told = _journal(parsed.job) if parsed.job else None
    wanted = _bytes(parsed, told)
    cluster = _cluster(parsed)
    save, source = _save(parsed, told, wanted, nodes, notes)
    situation = Situation(
        save=save,
        save_source=source,
        failures=_failures(parsed),
        nodes=nodes,
        gpus=gpus,
        local_write_s=_local(parsed, told, wanted),
        replica_write_s=_optional("--replica-write", parsed.replica_write),
        detection_s=_assumed("--detection", parsed.detection, DETECTION_S, "detection", assumed),
        restart_s=_restart(parsed, told, assumed),
        queue_s=_assumed("--queue", parsed.queue, 0.0, "queue", assumed),
        most_lost_s=_positive("--most-lost", parsed.most_lost),
        max_write_share=_share(parsed.max_write_share),
        max_bytes_per_s=None if parsed.max_bandwidth is None else quantities.parse_speed(parsed.max_bandwidth),
        limit_s=_positive("--time", parsed.time),
        step_s=_positive("--step", parsed.step),
        work_s=_positive("--work", parsed.work),
        every_s=_positive("--every", parsed.every),
    )
    return Inputs(situation, cluster, assumed, notes)


def _check(parsed: argparse.Namespace) -> None:
    ways = [n for n in ("measure", "write", "write_speed") if getattr(parsed, n) is not None]
    if len(ways) > 1:
        raise UsageError(
            f"{' and '.join('--' + name.replace('_', '-') for name in ways)} each say how long a write takes",
            remedy="give one of them",
        )
    if not ways and parsed.job is None:
        raise UsageError(
            "how long does a save take?",
            remedy="--job DIR of a job that has saved, --measure DIR --bytes 14x7e9, or --write 2min (with --stall 3s)",
        )
    if parsed.bytes is not None and parsed.parameters is not None:
        raise UsageError("--bytes and --parameters both say how large the state is", remedy="give one of them")
    if parsed.recipe is not None and parsed.parameters is None:
        raise UsageError(
            "--recipe says how many bytes each parameter has: of how many?", remedy="give --parameters 7e9"
        )
    if parsed.measure is None and (parsed.measure_most is not None):
        raise UsageError("--measure-most says how much --measure writes", remedy="give --measure DIR, or leave it out")
    if parsed.local_write is not None and parsed.measure_local is not None:
        raise UsageError("--local-write and --measure-local say the same", remedy="give one of them")
    if parsed.partition is not None and not parsed.policy:
        raise UsageError("--partition says where to look in --policy", remedy="give --policy FILE, or leave it out")


def _size(parsed: argparse.Namespace, notes: list[str]) -> tuple[int, int | None]:
    nodes, gpus = parsed.nodes, parsed.gpus
    if nodes is None and gpus is not None:
        nodes = math.ceil(gpus / GPUS_PER_NODE)
        notes.append(f"{gpus:,} GPUs are taken for {nodes:,} nodes of {GPUS_PER_NODE}; else give --nodes")
    nodes = nodes or 1
    if nodes > MOST_NODES or (gpus or 0) > 100 * MOST_NODES:
        raise UsageError(f"--nodes {nodes}: no cluster has more than {MOST_NODES:,}")
    if gpus is not None and gpus < nodes:
        raise UsageError(
            f"{gpus} GPUs on {nodes} nodes: fewer than one each", remedy="--gpus counts those of all nodes"
        )
    return nodes, gpus


def _journal(path: str) -> "Told":
    from lastgood.cli.jobs import open_named
    from lastgood.launch.history import read_records
    from lastgood.plan.journal import told_by
    from lastgood.store.durable import explained

    job = open_named(path)
    with explained("read the attempts in", job.attempts):
        return told_by(read_records(job))


def _bytes(parsed: argparse.Namespace, told: "Told | None") -> float:
    """0 if nobody said."""
    if parsed.bytes is not None:
        return quantities.parse_bytes(parsed.bytes)
    if parsed.parameters is not None:
        count = quantities.parse_count(parsed.parameters, "--parameters")
        recipe = quantities.RECIPES[parsed.recipe or "adam-mixed"]
        return count * recipe.bytes_each
    return told.bytes if told is not None else 0.0


def _save(
    parsed: argparse.Namespace, told: "Told | None", wanted: float, nodes: int, notes: list[str]
) -> tuple[SaveCost, str]:
    stall_s = _optional("--stall", parsed.stall)
    stall_source = "stall stated"
    if parsed.measure is not None:
        measured = _measured("--measure", parsed.measure, parsed, wanted, parsed.writers or 1)
        write_s, source = measured.write_s, str(measured)
        if stall_s is None:
            stall_s, speed = _copied(wanted / nodes)
            stall_source = f"stall: a copy of {byte_size(wanted / nodes)} in memory at {byte_size(speed)}/s"
    elif parsed.write is not None:
        write_s, source = _duration("--write", parsed.write), "stated"
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
        if stall_s is None and told.stall_s is not None:
            stall_s, stall_source = told.stall_s, "stall from the journal"
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


def _local(parsed: argparse.Namespace, told: "Told | None", wanted: float) -> float | None:
    if parsed.measure_local is not None:
        nodes = parsed.nodes or 1
        return _measured("--measure-local", parsed.measure_local, parsed, wanted, nodes).write_s
    if parsed.local_write is not None:
        return _duration("--local-write", parsed.local_write)
    return told.stage_write_s if told is not None else None


def _failures(parsed: argparse.Namespace) -> Failures:
    others = 0.0 if parsed.others is None else quantities.parse_per_day(parsed.others)
    shape = _shape(parsed.shape)
    if parsed.mtti is not None:
        if others:
            raise UsageError("--mtti is of the whole job, and --others adds to it", remedy="give one of them")
        mtti_s = _duration("--mtti", parsed.mtti)
        if mtti_s < 1:
            raise UsageError(f"--mtti {parsed.mtti}: a job that is interrupted every second does nothing")
        return Failures(mtti_s=mtti_s, source="stated for the whole job", shape=shape)
    if parsed.failures is not None:
        rate = quantities.parse_failures(parsed.failures)
        return Failures(per_1000_node_days=rate, others_per_day=others, source="stated", shape=shape)
    if parsed.preset is not None:
        preset = PRESETS[parsed.preset]
        return Failures(
            per_1000_node_days=preset.per_1000_node_days, others_per_day=others, source=preset.source, shape=shape
        )
    if parsed.history is not None:
        counted = _history(parsed.history)
        return msgspec.structs.replace(counted, others_per_day=others, shape=shape)
    assumed = assumed_failures()
    if parsed.others is not None:
        assumed = msgspec.structs.replace(
            assumed, others_per_day=others, source="nodes assumed: Kokolis et al., HPCA 2025, RSC-1; others stated"
        )
    return msgspec.structs.replace(assumed, shape=shape)


def _history(path: str) -> Failures:
    from lastgood.plan.counted import counted_failures
    from lastgood.store import durable

    with durable.explained("read the history", path):
        data = durable.read_file(Path(path), 100_000_000)
    return counted_failures(data, path)


def _restart(parsed: argparse.Namespace, told: "Told | None", assumed: list[str]) -> float:
    if parsed.restart is None and told is not None and told.restart_s is not None:
        assumed.append(f"restart: median of {told.starts} starts in the journal")
        return told.restart_s
    return _assumed("--restart", parsed.restart, RESTART_S, "restart", assumed)


def _cluster(parsed: argparse.Namespace) -> Cluster:
    known = _policy(parsed) if parsed.policy else Cluster()
    changes: dict[str, object] = {}
    if parsed.no_requeue:
        changes["may_requeue"] = False
    if parsed.grace is not None:
        changes["grace_s"] = _duration("--grace", parsed.grace)
    if parsed.exempt is not None:
        changes["exempt_s"] = _duration("--exempt", parsed.exempt)
    return msgspec.structs.replace(known, **changes)


def _policy(parsed: argparse.Namespace) -> Cluster:
    from lastgood.audit.finding import Problem
    from lastgood.audit.policy import Policy
    from lastgood.audit.reading import load
    from lastgood.schedulers.slurm_text import parse_seconds

    sources = []
    for name in parsed.policy:
        source = load(name)
        if isinstance(source, Problem):
            raise DamagedError(f"cannot use {name} as the policy: {source.message}")
        sources.append(source)
    policy = Policy(sources)
    if not policy.settings and not policy.partitions:
        raise DamagedError(
            f"{parsed.policy[0]} is neither slurm.conf nor what `scontrol show config` or `scontrol show partition` printed",
            remedy="scontrol show config > policy.txt; scontrol show partition >> policy.txt",
        )
    partition = parsed.partition or policy.default_partition
    if parsed.partition is not None and parsed.partition not in policy.partitions:
        known = ", ".join(sorted(policy.partitions)) or "none"
        raise UsageError(f"--partition {parsed.partition}: the policy tells of {known}")
    own = policy.partition(partition, "PreemptMode") if partition else None
    grace = policy.partition(partition, "GraceTime") if partition else None
    preempts_by = own or policy.get("PreemptMode")
    return Cluster(
        requeue_codes=policy.requeue_codes,
        kill_wait_s=policy.kill_wait_s,
        grace_s=parse_seconds(grace) if grace else None,
        preempts_by=preempts_by.upper() if preempts_by is not None else None,
        exempt_s=policy.exempt_s,
        kills_on_bad_exit=policy.is_true("KillOnBadExit"),
    )


def _duration(option: str, text: str) -> float:
    try:
        seconds = parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error.what}", remedy=error.remedy) from None
    if seconds > LONGEST_S:
        raise UsageError(f"{option} {text}: longer than ten years")
    return seconds


def _optional(option: str, text: str | None) -> float | None:
    return None if text is None else _duration(option, text)


def _positive(option: str, text: str | None) -> float | None:
    seconds = _optional(option, text)
    if seconds is not None and seconds <= 0:
        raise UsageError(f"{option} {text}: must be more than nothing")
    return seconds


def _assumed(option: str, text: str | None, otherwise_s: float, name: str, assumed: list[str]) -> float:
    if text is not None:
        return _duration(option, text)
    assumed.append(name)
    return otherwise_s


def _share(text: str | None) -> float:
    if text is None:
        return 0.10
    number, is_percent = text.strip().removesuffix("%").strip(), text.strip().endswith("%")
    try:
        share = float(number) / 100 if is_percent else math.nan
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise UsageError(
            f"--max-write-share {text}: not a share",
            remedy='write a percentage up to 100, such as "10%"',
        )
    return share


def _shape(text: str | None) -> float:
    if text is None:
        return 1.0
    try:
        shape = float(text)
    except ValueError:
        shape = math.nan
    if not 0.2 <= shape <= 5:
        raise UsageError(
            f"--shape {text}: from 0.2 (bursts) to 5 (wear); 1 has no memory",
            remedy="0.7 to 0.8 was seen on large clusters; leave it out if nothing tells",
        )
    return shape
