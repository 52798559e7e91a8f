"""From the options of `lastgood plan` to a situation: measured, stated or assumed, and which of these is said."""

import argparse
import math
import os
from typing import TYPE_CHECKING

import msgspec

from lastgood.cli.plan_options import content_of, duration_of, optional_duration, positive_duration
from lastgood.cli.plan_saves import journal_of, local_write_of, save_of, size_of
from lastgood.core.errors import DamagedError, NoSuchJobError, UsageError
from lastgood.plan import quantities
from lastgood.plan.mechanisms import Cluster
from lastgood.plan.situation import PRESETS, Failures, Situation, assumed_failures

if TYPE_CHECKING:
    from lastgood.plan.counted import Counted
    from lastgood.plan.journal import Told

LIVE = "live"
"""In place of a file: asks scontrol."""

GPUS_PER_NODE = 8
"""Of the published rates; taken where only GPUs are given."""

DETECTION_S = 60.0
RESTART_S = 300.0
"""As Kokolis et al. take it."""

MOST_NODES = 1_000_000
MOST_HISTORY_BYTES = 100_000_000


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
    told = journal_of(parsed.job) if parsed.job else None
    nodes, gpus = _size(parsed, told, notes)
    wanted = size_of(parsed, told)
    if parsed.max_bandwidth is not None and not wanted:
        raise UsageError("--max-bandwidth: of how many bytes?", remedy="give --bytes 14x7e9 or --parameters 7e9")
    cluster = _cluster(parsed)
    counted = None if parsed.history is None else _history(parsed.history, parsed.partition)
    save, source = save_of(parsed, told, wanted, nodes, notes)
    situation = Situation(
        save=save,
        save_source=source,
        failures=_failures(parsed, counted),
        nodes=nodes,
        gpus=gpus,
        local_write_s=local_write_of(parsed, told, wanted),
        replica_write_s=optional_duration("--replica-write", parsed.replica_write),
        same_nodes=_share("--same-nodes", parsed.same_nodes) or 0.0,
        detection_s=_assumed("--detection", parsed.detection, DETECTION_S, "detection", assumed),
        restart_s=_restart(parsed, told, assumed),
        queue_s=_queue(parsed, counted, assumed),
        most_lost_s=positive_duration("--most-lost", parsed.most_lost),
        max_write_share=_positive_share("--max-write-share", parsed.max_write_share),
        max_bytes_per_s=None if parsed.max_bandwidth is None else quantities.parse_speed(parsed.max_bandwidth),
        limit_s=positive_duration("--time", parsed.time),
        step_s=positive_duration("--step", parsed.step),
        work_s=positive_duration("--work", parsed.work),
        every_s=positive_duration("--every", parsed.every),
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
    if parsed.measure is None and parsed.measure_local is None and parsed.measure_most is not None:
        raise UsageError("--measure-most says how much --measure writes", remedy="give --measure DIR, or leave it out")
    if parsed.measure is None and parsed.writers is not None:
        raise UsageError(
            "--writers says how many write as --measure does", remedy="give --measure DIR, or leave it out"
        )
    if parsed.local_write is not None and parsed.measure_local is not None:
        raise UsageError("--local-write and --measure-local say the same", remedy="give one of them")
    if parsed.partition is not None and not parsed.policy and parsed.history is None:
        raise UsageError(
            "--partition says where to look in --policy or --history", remedy="give one of these, or leave it out"
        )


def _size(parsed: argparse.Namespace, told: "Told | None", notes: list[str]) -> tuple[int, int | None]:
    nodes, gpus = parsed.nodes, parsed.gpus
    if nodes is None and gpus is None and told is not None and told.nodes is not None:
        nodes, gpus = told.nodes, told.gpus
        on = "" if gpus is None else f" with {gpus:,} GPUs"
        notes.append(f"planned for the nodes that the job had last: {nodes:,}{on}; else give --nodes")
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


def _failures(parsed: argparse.Namespace, counted: "Counted | None") -> Failures:
    others = 0.0 if parsed.others is None else quantities.parse_per_day(parsed.others)
    shape = _shape(parsed.shape)
    if parsed.mtti is not None:
        if others:
            raise UsageError("--mtti is of the whole job, and --others adds to it", remedy="give one of them")
        mtti_s = duration_of("--mtti", parsed.mtti)
        if mtti_s < 1:
            raise UsageError(f"--mtti {parsed.mtti}: a job that is interrupted every second does nothing")
        return Failures(mtti_s=mtti_s, source="stated for the whole job", shape=shape)
    if parsed.failures is not None:
        rate = quantities.parse_failures(parsed.failures)
        return Failures(per_1000_node_days=rate, others_per_day=others, source="stated", shape=shape)
    if parsed.preset is not None:
        preset = PRESETS[parsed.preset]
        source = f"{preset.source}; others stated" if others else preset.source
        return Failures(per_1000_node_days=preset.per_1000_node_days, others_per_day=others, source=source, shape=shape)
    if counted is not None:
        return msgspec.structs.replace(counted.failures, others_per_day=others, shape=shape)
    assumed = assumed_failures()
    if parsed.others is not None:
        assumed = msgspec.structs.replace(
            assumed, others_per_day=others, source="nodes assumed: Kokolis et al., HPCA 2025, RSC-1; others stated"
        )
    return msgspec.structs.replace(assumed, shape=shape)


def _history(path: str, partition: str | None) -> "Counted":
    from lastgood.plan.counted import counted_failures

    data = content_of("--history", path, MOST_HISTORY_BYTES)
    return counted_failures(data, path, partition)


def _restart(parsed: argparse.Namespace, told: "Told | None", assumed: list[str]) -> float:
    if parsed.restart is None and told is not None and told.restart_s is not None:
        assumed.append(f"restart: median of {told.starts} starts in the journal")
        return told.restart_s
    return _assumed("--restart", parsed.restart, RESTART_S, "restart", assumed)


def _queue(parsed: argparse.Namespace, counted: "Counted | None", assumed: list[str]) -> float:
    if parsed.queue is None and counted is not None and counted.wait_s is not None:
        assumed.append("queue: the median wait of restarts in the history")
        return counted.wait_s
    return _assumed("--queue", parsed.queue, 0.0, "queue", assumed)


def _cluster(parsed: argparse.Namespace) -> Cluster:
    known = _policy(parsed) if parsed.policy else Cluster()
    changes: dict[str, object] = {}
    if parsed.no_requeue:
        changes["may_requeue"] = False
    if parsed.grace is not None:
        changes["grace_s"] = duration_of("--grace", parsed.grace)
    if parsed.exempt is not None:
        changes["exempt_s"] = duration_of("--exempt", parsed.exempt)
    return msgspec.structs.replace(known, **changes)


def _policy(parsed: argparse.Namespace) -> Cluster:
    from lastgood.audit.finding import Problem
    from lastgood.audit.policy import Policy
    from lastgood.audit.reading import find_include, load
    from lastgood.audit.source import Source
    from lastgood.schedulers.slurm_commands import SlurmCommands
    from lastgood.schedulers.slurm_text import parse_seconds

    sources = []
    for name in parsed.policy:
        if name == LIVE:
            shown = SlurmCommands(dict(os.environ)).show_policy()
            sources += [Source(command, text.encode()) for command, text in shown.items()]
            continue
        source = load(name)
        if isinstance(source, Problem):
            kind = NoSuchJobError if source.is_missing else DamagedError
            raise kind(f"cannot use {name} as the policy: {source.message}")
        sources.append(source)
    policy = Policy(sources, find_include)
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


def _assumed(option: str, text: str | None, otherwise_s: float, name: str, assumed: list[str]) -> float:
    if text is not None:
        return duration_of(option, text)
    assumed.append(name)
    return otherwise_s


def _share(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    number, is_percent = text.strip().removesuffix("%").strip(), text.strip().endswith("%")
    try:
        share = float(number) / 100 if is_percent else math.nan
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise UsageError(
            f"{option} {text}: not a share",
            remedy='write a percentage up to 100, such as "10%"',
        )
    return share


def _positive_share(option: str, text: str | None) -> float | None:
    share = _share(option, text)
    if share == 0:
        raise UsageError(f"{option} {text}: must be more than nothing")
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
            remedy="0.7 to 0.8 was seen on large clusters (Schroeder and Gibson, DSN 2006); leave it out if nothing tells",
        )
    return shape
