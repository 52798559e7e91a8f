"""Whether a workload does long work that a failure would cost, or prepares, tests or serves something."""

import re
from collections.abc import Iterator
from functools import lru_cache

from lastgood.audit.batch.script import SETUP
from lastgood.audit.kubernetes.commands import SHELLS, Container, Run
from lastgood.audit.kubernetes.manifest import REPLICAS, Manifest
from lastgood.audit.kubernetes.pods import PodGroup
from lastgood.audit.kubernetes.templates import UNKNOWN

SHORT_S = 1800
"""What ends earlier than this can be done again."""
_SIDE_NAMES = frozenset(
    """
    audit backfill backup bench benchmark benchmarks build consolidate consolidation merge quantize quantization sendrecv serialize smi tensorize
    tokenize tokenization prepdata check checker cleanup client conversion convert converter copy crd debug demo
    deploy dev download downloader eval evaluate exporter generator health healthcheck hello hook inspect import importer mnist cifar
    inference init install installer interactive jupyter lab load loader loadtest migrate migration nccl nettest notebook
    perf pi predict prediction prep prepare preprocess preprocessing probe profile profiler prober push quickstart register render seed serve server
    serving setup shell showcase smoke sync test tester testing tests upload uploader validate validation validator verify viz warmup webhook
    """.split()
)
_SIDE_PROGRAM = re.compile(
    r"[a-z]+-smi|neuron-\w+|tpu-info|fi_\w+|.*_perf(_mpi)?|.*nccl-?tests?.*|ib_(write|read|send)_.*|iperf3?|fio|hpl.*|stress(-ng)?|jupyter.*|uvicorn|gunicorn"
    r"|apt(-get)?|yum|dnf|apk|dpkg|gpg|ldconfig|dmesg|ip|nslookup|dig|getent|ping|nc|service|sysctl|ssh-keygen|ssh|cmake|gcc|nvcc"
    r"|huggingface-cli|hf|gdown|service|mount|env|ray|supervisord|sed|python3?-config|vllm|.*server|trtllm-.*|tritonserver|pause|tail|sshd|dcgmi|helm|kubectl|gcloud|gsutil|aws|git|make|npm|node|nginx",
)
_SIDE_SCRIPT = re.compile(
    r"(?<![a-z])(bench\w*|test\w*|convert\w*|download\w*|prepare\w*|preprocess\w*|serve\w*|server|infer\w*|predict\w*"
    r"|eval\w*|verif\w*|audit\w*|inspect\w*|fetch\w*|generate\w*|visuali\w*|plot\w*|tokenize\w*|quantize\w*|tensorize\w*|merge\w*|consolidat\w*|api_server|upload\w*|export\w*|.*benchmarks?)(?![a-z])"
)
_IDLE = re.compile(r"(?<![a-z])(sleep|pause|busybox|hello[-_]?world|nginx|agnhost|vectoradd|cuda-samples?)(?![a-z])")
_TOY = re.compile(r"mnist|cifar|hello_?world|(?<![a-z])(num_)?epochs[= ][12](?!\d)", re.IGNORECASE)
_TRAINS = re.compile(
    r"(?<![a-z])(pre)?train(?!ed)|fine_?-?tun(e|ing)|(?<![a-z])sft(?![a-z])|(?<![a-z])fit(?![a-z])|resnet|fsdp|(?<![a-z])ddp"
    r"|maxtext|megatron|nemo|(?<![a-z])llama|lightning",
    re.IGNORECASE,
)
_APPLICATIONS = re.compile(
    r"gmx(_mpi)?(_d)?|mdrun|lmp(_\w+)?|pw\.x|cp2k.*|namd[23]?|pmemd.*|vasp_\w+|relion_refine.*|\w+Foam|cp\.x|wrf\.exe|nek5000"
)
_LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "mpirun", "lastgood")
_RESUMES = re.compile(r"--?(resume|checkpoint|ckpt|save[-_])", re.IGNORECASE)
_ACCELERATOR = re.compile(r"(gpu|tpu|gaudi|neuron\w*|npu|mig-.*|ascend.*|trn\d?)\Z|^(nvidia|amd)\.com/", re.IGNORECASE)
_CHECKPOINTS = re.compile(r"checkpoint|ckpt|snapshot", re.IGNORECASE)
_MANY_CPUS = 16


@lru_cache(maxsize=4)
def is_long(manifest: Manifest) -> bool:
    """True where there is reason to think so; a doubt is a no."""
    if any("hook" in key for key in _annotations(manifest)) or _ends_soon(manifest):
        return False
    words = set(re.split(r"[-_.\d]+", manifest.root.text("metadata", "name").lower()))
    words |= set(re.split(r"[-_.\d]+", manifest.root.text("metadata", "generateName").lower()))
    if words & _SIDE_NAMES:
        return False
    containers = [c for group in manifest.groups for c in group.containers if not _is_idle(c)]
    runs = [run for container in containers for run in container.runs]
    if not containers or (runs and all(is_beside(run) for run in runs)):
        return False
    if not runs and any(container.words for container in containers):
        # Their commands only sleep, copy or print.
        return False
    if manifest.kind in REPLICAS or manifest.kind == "TrainJob":
        return True
    has_accelerator = bool(accelerators(manifest.groups))
    if any(trains(run) for run in runs):
        # By its name alone it may be a small model that is done in a minute.
        return has_accelerator or any(map(_is_sure, runs)) or any(map(_keeps_state, containers))
    return manifest.kind != "Pod" and has_accelerator


def is_beside(run: Run) -> bool:
    """True for a program that no long job is made of."""
    texts = [word.text for word in run.launch.words]
    program = run.launch.program
    if UNKNOWN in texts[0]:
        return True
    if program in SETUP or _SIDE_PROGRAM.fullmatch(program.lower()) or _TOY.search(" ".join(texts)):
        return True
    if program in SHELLS and len(texts) == 1:
        return True
    if program == "python" and texts[1:2] == ["-c"]:
        return True
    if program == "python" and texts[1:2] == ["-m"]:
        script = texts[2] if len(texts) > 2 else ""
    else:
        scripts = (text for text in texts[:3] if text.endswith((".py", ".sh")))
        script = run.launch.python_script or next(scripts, "")
    return bool(_SIDE_SCRIPT.search(script.lower().rpartition("/")[2]) and not _TRAINS.search(script))


def trains(run: Run) -> bool:
    """True for a training or a simulation, by the names of the program and its options."""
    if is_beside(run):
        return False
    if any(wrapper.name in _LAUNCHERS for wrapper in run.launch.wrappers):
        return True
    texts = [word.text for word in run.launch.words]
    if any(_APPLICATIONS.fullmatch(text.rpartition("/")[2]) for text in texts[:1]):
        return True
    return any(_TRAINS.search(text.rpartition("/")[2]) for text in texts[:3]) or any(
        _RESUMES.match(text) for text in texts[1:]
    )


def _is_sure(run: Run) -> bool:
    """A launcher of many processes, an application that runs for long, or an option to go on from a checkpoint."""
    if is_beside(run):
        return False
    texts = [word.text for word in run.launch.words]
    return (
        any(wrapper.name in _LAUNCHERS for wrapper in run.launch.wrappers)
        or bool(_APPLICATIONS.fullmatch(texts[0].rpartition("/")[2]))
        or any(_RESUMES.match(text) or _CHECKPOINTS.search(text) for text in texts[1:])
    )


def _keeps_state(container: Container) -> bool:
    """It has a place for checkpoints, or more processors than a small job needs."""
    names = [*container.environment, *(mount.text("name") + mount.text("mountPath") for mount in container.mounts)]
    cpus = [container.value.text("resources", kind, "cpu") for kind in ("requests", "limits")]
    return any(map(_CHECKPOINTS.search, names)) or any(cpu.isdigit() and int(cpu) >= _MANY_CPUS for cpu in cpus)


def main_run(container: Container) -> Run | None:
    """The program that a container is there for: the last that trains, or else the last."""
    runs = [run for run in container.runs if not is_beside(run)]
    return next((run for run in reversed(runs) if trains(run)), runs[-1] if runs else None)


def accelerators(groups: tuple[PodGroup, ...]) -> set[str]:
    """Names of accelerators that the pods ask for."""
    return {name for group in groups for name in group.resources if _ACCELERATOR.search(name)}


def _is_idle(container: Container) -> bool:
    """Its image is one that only waits or answers, and it is told nothing else."""
    return not container.value.elements("command") and bool(_IDLE.search(container.value.text("image")))


def _annotations(manifest: Manifest) -> Iterator[str]:
    found = manifest.root.get("metadata", "annotations")
    for key, _ in found.items() if found is not None else ():
        yield key


def _ends_soon(manifest: Manifest) -> bool:
    spec = manifest.root.get("spec")
    places = [spec, manifest.job_spec, spec.get("runPolicy") if spec is not None else None]
    places += [group.job.spec for group in manifest.groups if group.job is not None]
    places += [group.spec for group in manifest.groups]
    limits = [place.number("activeDeadlineSeconds") for place in places if place is not None]
    return any(limit is not None and limit < SHORT_S for limit in limits)
