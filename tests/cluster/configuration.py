"""The configuration files of a test cluster, as text."""

from collections.abc import Mapping
from pathlib import Path

# What a test may change with `SlurmCluster.configure`, with the values that it begins with.
SETTINGS: Mapping[str, str] = {
    "JobRequeue": "1",
    "RequeueExit": "75",
    "KillWait": "15",
    "UnkillableStepTimeout": "60",
    "PreemptMode": "REQUEUE",
    "SlurmdTimeout": "6",
    "OverTimeLimit": "0",
    "DependencyParameters": "kill_invalid_depend",
    "SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=0,bf_min_age_reserve=0,batch_sched_delay=0",
    "MinJobAge": "3600",
    "MaxArraySize": "1000",
    "SrunPortRange": "0-0",
}
PARTITIONS: Mapping[str, Mapping[str, str]] = {
    "main": {"Default": "YES", "PriorityTier": "10", "GraceTime": "0", "MaxTime": "UNLIMITED"},
    "grace": {"PriorityTier": "10", "GraceTime": "3", "MaxTime": "UNLIMITED"},
    "high": {"PriorityTier": "100", "PreemptMode": "OFF", "MaxTime": "UNLIMITED"},
}
CPUS, MEMORY_MB, GPUS = 4, 8000, 2


def slurm_conf(
    directory: Path,
    cluster: str,
    host: str,
    nodes: list[str],
    ports: list[int],
    settings: Mapping[str, str],
    partitions: Mapping[str, Mapping[str, str]],
) -> str:
    """`ports`: slurmctld, slurmdbd, then one for each node."""
    lines = [
        f"ClusterName={cluster}",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        "AuthType=auth/munge",
        # Without it a requeued job starts only after two minutes.
        "AuthInfo=cred_expire=5",
        "SlurmUser=root",
        "SlurmdUser=root",
        "CommunicationParameters=NoAddrCache",
        f"StateSaveLocation={directory}/state",
        f"SlurmctldPidFile={directory}/slurmctld.pid",
        f"SlurmctldLogFile={directory}/slurmctld.log",
        f"SlurmdSpoolDir={directory}/%n",
        f"SlurmdPidFile={directory}/%n.pid",
        f"SlurmdLogFile={directory}/%n.log",
        "SlurmdParameters=config_overrides",
        "SlurmctldDebug=verbose",
        "SlurmdDebug=verbose",
        "ProctrackType=proctrack/pgid",
        "TaskPlugin=task/none",
        "SwitchType=switch/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerCPU=100",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=30",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports[1]}",
        "AccountingStorageTRES=gres/gpu",
        "PreemptType=preempt/partition_prio",
        "PriorityType=priority/basic",
        "ReturnToService=2",
        "MailProg=/bin/true",
        "GresTypes=gpu",
        # An empty value is Slurm's own default.
        *(f"{name}={value}" for name, value in settings.items() if value),
    ]
    for name, port in zip(nodes, ports[2:], strict=False):
        lines.append(
            f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={port} "
            f"CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:{GPUS} State=UNKNOWN"
        )
    for name, options in partitions.items():
        words = " ".join(f"{option}={value}" for option, value in options.items())
        lines.append(f"PartitionName={name} Nodes={','.join(nodes)} {words}")
    return "\n".join(lines) + "\n"


def gres_conf(directory: Path, nodes: list[str]) -> str:
    return f"NodeName={','.join(nodes)} Name=gpu File={directory}/gpu[0-{GPUS - 1}]\n"


def slurmdbd_conf(directory: Path, host: str, port: int, database_port: int) -> str:
    return (
        f"AuthType=auth/munge\nDbdHost={host}\nDbdAddr=127.0.0.1\nDbdPort={port}\nSlurmUser=root\n"
        f"LogFile={directory}/slurmdbd.log\nPidFile={directory}/slurmdbd.pid\n"
        "StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
        f"StoragePort={database_port}\nStorageUser=slurm\nStoragePass=slurm\nStorageLoc=slurm_acct\n"
    )
