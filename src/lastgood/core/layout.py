"""Every name that we use on disk and in the environment, as pure string functions.

<job>/
  job.json                          who this is
  lock                              held while a launcher or a lone program runs the job
  log.txt                           output of all attempts, appended, with markers
  batch.sh                          optional: the script that was submitted to Slurm
  attempts/0003.json                claimed by exclusive create: the fencing token
  attempts/0003.events.jsonl        what happened in it
  attempts/0003.values-00000.jsonl  what rank 0 logged at each step
  checkpoints/000000001200-0003/    step and attempt
    rank-00000.safetensors          arrays
    rank-00000.json                 everything else of that rank, and the checksums of its arrays
    manifest.json                   written last: the commit
    rejected.json                   optional: it failed to restore, and why
    pinned.json                     optional: never deleted by retention
  stages/<digest>.json              where a node stages checkpoints before they come here
  constants/                        arrays that do not change, written once
    <digest>-0003.safetensors       by content and attempt; checkpoints of that attempt refer to it
  finished.json                     all steps are done
"""

import re

FORMAT_VERSION = 1

CONSTANTS_FORMAT = 2
"""The format of a part and a manifest that refer to constants: a reader that does not know of them must refuse, for
it would take the checkpoint for one without these arrays."""

JOB_FILE = "job.json"
LOCK_FILE = "lock"
LOG_FILE = "log.txt"
FINISHED_FILE = "finished.json"
ATTEMPTS_DIR = "attempts"
CHECKPOINTS_DIR = "checkpoints"
CONSTANTS_DIR = "constants"
STAGES_DIR = "stages"
MANIFEST_FILE = "manifest.json"
REJECTED_FILE = "rejected.json"
PINNED_FILE = "pinned.json"
BATCH_FILE = "batch.sh"

TEMPORARY_SUFFIX = ".part"
"""Ends the name of a file that is still being written; such a file never counts."""

STEP_DIGITS = 12
MAX_STEP = 10**STEP_DIGITS - 1

_CHECKPOINT = re.compile(r"(\d{12})-(\d{4,9})\Z")
_ATTEMPT = re.compile(r"(\d{4,9})\.json\Z")
_VALUES_FILE = re.compile(r"(\d{4,9})\.values-(\d{5,9})\.jsonl\Z")
_PART = re.compile(r"rank-(\d{5,9})\.(json|safetensors)\Z")
_CONSTANTS = re.compile(r"([0-9a-f]{32})-(\d{4,9})\.safetensors\Z")
_STAGE = re.compile(r"[0-9a-f]{16}\.json\Z")
_TOKEN = re.compile(r"\.[0-9a-f]{16}\Z")
_CLAIM = re.compile(r"(job|finished|\d{4,9})\.json\.[0-9a-f]{16}\.part\Z")


def checkpoint_name(step: int, attempt: int) -> str:
    """The directory name of a checkpoint; two attempts never write to one path.

    >>> checkpoint_name(1200, 3)
    '000000001200-0003'
    """
    return f"{step:0{STEP_DIGITS}d}-{attempt:04d}"


def parse_checkpoint_name(name: str) -> tuple[int, int] | None:
    """(step, attempt) of a checkpoint's directory name, or None if the directory is not ours.

    >>> parse_checkpoint_name("000000001200-0003")
    (1200, 3)
    >>> parse_checkpoint_name("step_1200") is None
    True
    """
    match = _CHECKPOINT.match(name)
    return (int(match[1]), int(match[2])) if match and name == checkpoint_name(int(match[1]), int(match[2])) else None


def attempt_file(attempt: int) -> str:
    return f"{attempt:04d}.json"


def parse_attempt_file(name: str) -> int | None:
    match = _ATTEMPT.match(name)
    return int(match[1]) if match and int(match[1]) > 0 and name == attempt_file(int(match[1])) else None


def events_file(attempt: int) -> str:
    return f"{attempt:04d}.events.jsonl"


def values_file(attempt: int, rank: int) -> str:
    return f"{attempt:04d}.values-{rank:05d}.jsonl"


def parse_values_file(name: str) -> tuple[int, int] | None:
    """Attempt and rank of a `values_file`; None for any other name."""
    match = _VALUES_FILE.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None


def part_file(rank: int) -> str:
    return f"rank-{rank:05d}.json"


def data_file(rank: int) -> str:
    return f"rank-{rank:05d}.safetensors"


def constants_file(digest: str, attempt: int) -> str:
    return f"{digest}-{attempt:04d}.safetensors"


def parse_constants_file(name: str) -> tuple[str, int] | None:
    """(digest, attempt) of a constants file, or None if it is not ours.

    >>> parse_constants_file("00112233445566778899aabbccddeeff-0003.safetensors")
    ('00112233445566778899aabbccddeeff', 3)
    """
    match = _CONSTANTS.match(name)
    if match is None or name != constants_file(match[1], int(match[2])):
        return None
    return match[1], int(match[2])


def stage_file(digest: str) -> str:
    return f"{digest}.json"


def is_stage_file(name: str) -> bool:
    return _STAGE.match(name) is not None


def without_temporary(name: str) -> str:
    """The name that a temporary file is meant for; any other name as it is.

    >>> without_temporary("manifest.json.0123456789abcdef.part"), without_temporary("rank-00000.json")
    ('manifest.json', 'rank-00000.json')
    """
    if not name.endswith(TEMPORARY_SUFFIX):
        return name
    return _TOKEN.sub("", name.removesuffix(TEMPORARY_SUFFIX))


def is_part_of_checkpoint(name: str) -> bool:
    """True for the names that we write into a checkpoint's directory; nothing else there is ours to delete."""
    name = without_temporary(name)
    return name in (MANIFEST_FILE, REJECTED_FILE, PINNED_FILE) or _PART.match(name) is not None


def is_left_by_start(name: str, newest_attempt: int) -> bool:
    """True for a temporary file with which nobody can win any more, once `newest_attempt` is claimed.

    >>> is_left_by_start("0003.json.00112233aabbccdd.part", 3), is_left_by_start("0003.json", 3)
    (True, False)
    """
    match = _CLAIM.match(name)
    return match is not None and (not match[1].isdigit() or int(match[1]) <= newest_attempt)


class Env:
    """Names of the environment variables through which a launcher talks to the job's program."""

    JOB = "LASTGOOD_JOB"
    ATTEMPT = "LASTGOOD_ATTEMPT"
    LAUNCH = "LASTGOOD_LAUNCH"
    LAUNCHER_PID = "LASTGOOD_LAUNCHER_PID"
    LAUNCHER_NODE = "LASTGOOD_LAUNCHER_NODE"
    HEARTBEATS = "LASTGOOD_HEARTBEATS"
    DEADLINE = "LASTGOOD_DEADLINE"
    FRESH = "LASTGOOD_FRESH"
    EXPECT_STEP = "LASTGOOD_EXPECT_STEP"
    STATE_DIR = "LASTGOOD_STATE_DIR"
    CHECKPOINT = "LASTGOOD_CHECKPOINT"
    MTTI = "LASTGOOD_MTTI"
    KEEPER = "LASTGOOD_KEEPER"
    KEEPER_LINGER = "LASTGOOD_KEEPER_LINGER"
    CHAIN = "LASTGOOD_CHAIN"
    STANDBY = "LASTGOOD_STANDBY"
    PARK = "LASTGOOD_PARK"
    TRIAL = "LASTGOOD_TRIAL"


ENVIRONMENT: dict[str, str] = {
    Env.JOB: "absolute path of the job directory",
    Env.ATTEMPT: "number of the attempt that the launcher claimed, from 1",
    Env.LAUNCH: "random token that ties the attempts of one launcher together",
    Env.LAUNCHER_PID: "process id of the launcher; when it is gone, the program saves and stops",
    Env.LAUNCHER_NODE: "the node that the launcher runs on, as SLURMD_NODENAME says it (unset: none is named)",
    Env.HEARTBEATS: "directory on this node for heartbeats, one small file per rank",
    Env.DEADLINE: "end of the allocation, in seconds since 1970 (UTC)",
    Env.FRESH: "1: a new start is meant, do not resume and do not refuse",
    Env.EXPECT_STEP: "a checkpoint of at least this step is known to exist: refuse a fresh start",
    Env.STATE_DIR: "where to remember which jobs once saved (default: ~/.local/state/lastgood)",
    Env.MTTI: 'how often the job is interrupted on average, such as 24h: what every="auto" goes by, in place of a preset',
    Env.KEEPER: "off: no keeper; the loop stands still while a checkpoint is written (default: on)",
    Env.KEEPER_LINGER: "how long the keeper holds the snapshot of a job that has died and has no launcher, for the "
    "next attempt on this node, such as 5min (default: 60s)",
    Env.CHAIN: "ties the jobs of a scheduler together that are segments of one submission; set in the batch script",
    Env.STANDBY: "1: the launcher keeps a standby, and wants to know what the program has imported by its first step",
    Env.PARK: "in a standby, until the script runs in it: descriptors through which it hears from the launcher",
    Env.TRIAL: "given to every process of a drill or a proof, so that none of them outlives it",
    Env.CHECKPOINT: "for a wrapped command: path of the checkpoint that it should resume from (unset: none)",
}
"""Every variable of ours with its meaning; the reference page is made from this table."""

FOREIGN_ENVIRONMENT: dict[str, str] = {
    "SLURM_RESTART_COUNT": "how often Slurm has requeued the job; above 0, a start without a checkpoint is refused "
    "unless earlier attempts are known to have ended before their first save",
    "TORCHELASTIC_RESTART_COUNT": "the same, as torchrun counts the restarts of its workers",
    "SLURM_JOB_END_TIME": "end of the allocation, in seconds since 1970; used where nothing else states a limit",
    "SLURM_JOB_NODELIST": "nodes of the allocation: where the command is srun, an agent of the launcher runs on each",
    "SLURMD_NODENAME": "which node this is: several can share a host, and each has a keeper of its own",
    "SLURM_CPUS_PER_TASK": "it, and the other variables that srun takes for options, are not passed on to the step of the "
    "launcher's agents",
    "SLURM_STEP_ID": "tells the processes of the command's step from those that the launcher runs beside it",
    "SLURM_KILL_BAD_EXIT": "set to 1 for a command that is srun, unless it is set already: one rank's death ends the step",
    "SLURM_JOB_NUM_NODES": "number of nodes, for the preset of how often the job is interrupted",
    "SLURM_CONF": "where Slurm's configuration is; also for jobs that are submitted from inside a job",
    "SLURM_CONF_SERVER": "the same",
    "SLURM_CLUSTERS": "the same: which cluster Slurm's commands are for",
    "SLURM_TIME_FORMAT": "set for questions to Slurm: times as seconds since 1970",
    "SLURM_JOB_ID": "a Slurm job: its rules say who starts the job again; a job that is submitted from inside is given no "
    "other variable of it",
    "SLURM_JOB_NAME": "with the dependencies, tells the segments that wait behind this one",
    "SLURM_JOB_PARTITION": "kept in the journal",
    "SLURM_CLUSTER_NAME": "kept in the journal, and with the number of the job: `lastgood status NUMBER` finds it",
    "SLURM_ARRAY_JOB_ID": "%A in --job",
    "SLURM_ARRAY_TASK_ID": "%a in --job",
    "SLURM_ARRAY_TASK_MAX": "with --chained, tells whether another segment follows",
    "SLURM_STEP_NUM_TASKS": "more than 1: `lastgood run` refuses, because srun has started it several times",
    "SBATCH_PARTITION": "where `lastgood submit` is given no --partition, as for sbatch itself",
    "SBATCH_TIMELIMIT": "the same for --time",
    "SBATCH_ARRAY_INX": "the same for --array",
    "GROUP_WORLD_SIZE": "the same, as torchrun counts its agents",
    "LOCAL_WORLD_SIZE": "number of ranks on this node, which share its memory for snapshots; also "
    "OMPI_COMM_WORLD_LOCAL_SIZE and MPI_LOCALNRANKS",
    "RANK": "which rank a process of a drill or a proof is; also OMPI_COMM_WORLD_RANK, PMI_RANK and SLURM_PROCID",
    "SLURM_PROCID": "the same, as Slurm counts the tasks of a step",
    "WORLD_SIZE": "more than 1: torch.distributed must be initialised before `Run` is made",
    "XDG_STATE_HOME": "its directory `lastgood` is used where LASTGOOD_STATE_DIR is not set",
    "HOME": "its directory `.local/state/lastgood` is used where neither is set",
    "PYTHON_EXEC": "with `--standby`, set for torchrun: the interpreter that its ranks start with, a parking place of ours",
    "TORCHELASTIC_USE_AGENT_STORE": "with `--standby`: where it says that torchrun itself holds the store of the ranks, their "
    "ports need not be free",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "set to 1 for torchrun, unless it is set already: without it, torch 2.13 "
    "does not bring back workers after one was killed",
}
"""Variables of others that we read, or set for a command, with what they do here. Those that are only kept and compared, for
they can change numbers, are in core.fingerprint_items."""
