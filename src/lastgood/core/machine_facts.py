"""Reading what a system says of its CPU and its GPUs. Pure: texts in, facts out."""

import re
from collections.abc import Mapping, Sequence

import msgspec

_SIMD = (
    "sse4_2 avx avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 avx_vnni amx_tile amx_bf16 amx_int8 "
    "asimd asimddp fphp bf16 i8mm sve sve2 vsx vsx3 rvv"
).split()
"""Instruction sets that math libraries pick their code by; as Linux names them."""
_INDEX = re.compile(r"\d+\Z", re.ASCII)


class Gpu(msgspec.Struct, frozen=True):
    """One GPU, as a tool or the driver names it."""

    index: int
    uuid: str
    model: str
    driver: str = ""


def cpu_facts(cpuinfo: str) -> dict[str, str]:
    """From the first processor in /proc/cpuinfo: model and instruction sets, as far as it tells.

    >>> cpu_facts("processor : 0\\nmodel name : EPYC\\nflags : fpu avx avx2 fma\\n")
    {'cpu': 'EPYC', 'cpu.simd': 'avx avx2 fma'}
    """
    first: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        first.setdefault(name.strip(), value.strip())
    model = first.get("model name") or _arm_model(first) or first.get("cpu", "")
    flags = {*(first.get("flags") or first.get("Features") or "").split()}
    found = {"cpu": model, "cpu.simd": " ".join(name for name in _SIMD if name in flags)}
    return {name: value for name, value in found.items() if value}


def _arm_model(first: Mapping[str, str]) -> str:
    codes = [first.get(f"CPU {name}", "") for name in ("implementer", "part", "variant")]
    return f"ARM implementer {codes[0]} part {codes[1]} variant {codes[2]}" if codes[0] else ""


def parse_nvidia_smi(text: str) -> list[Gpu]:
    """The answer to `NVIDIA_SMI`. Raises ValueError for anything else, such as "No devices were found".

    >>> parse_nvidia_smi("0, GPU-1a, NVIDIA A100-SXM4-80GB, 550.54.15\\n")[0].model
    'NVIDIA A100-SXM4-80GB'
    """
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        words = [word.strip() for word in line.split(",")]
        if len(words) < 4 or not _INDEX.match(words[0]):
            raise ValueError(line.strip())
        index, uuid, *model, driver = words
        found.append(Gpu(int(index), uuid, ", ".join(model), driver))
    return found


NVIDIA_SMI = ("nvidia-smi", "--query-gpu=index,uuid,name,driver_version", "--format=csv,noheader")
"""It asks the driver, and makes no CUDA context on any GPU."""


def parse_driver_files(informations: Sequence[str], version: str) -> list[Gpu]:
    """From the files /proc/driver/nvidia/gpus/*/information, in order of their bus addresses, and .../version.

    >>> parse_driver_files(["Model: \\t NVIDIA H100\\nGPU UUID: \\t GPU-7\\n"], "")
    [Gpu(index=0, uuid='GPU-7', model='NVIDIA H100', driver='')]
    """
    driver = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", version)
    found = []
    for index, text in enumerate(informations):
        facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
        if facts.get("Model"):
            found.append(Gpu(index, facts.get("GPU UUID", ""), facts["Model"], driver[1] if driver else ""))
    return found


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu]:
    """Those that CUDA_VISIBLE_DEVICES leaves to a program. Where it names what is not among them (a slice of a GPU, or
    numbers that a container has changed), all of them: nothing tells which.

    >>> [gpu.index for gpu in visible([Gpu(0, "GPU-a", "A"), Gpu(1, "GPU-b", "B")], {"CUDA_VISIBLE_DEVICES": "1"})]
    [1]
    """
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return list(gpus)
    words = [word.strip() for word in given.split(",") if word.strip()]
    if not words or words[0] in ("-1", "NoDevFiles"):
        return []
    chosen = [next((gpu for gpu in gpus if _is_named(gpu, word)), None) for word in words]
    return list(gpus) if None in chosen else [gpu for gpu in chosen if gpu is not None]


def _is_named(gpu: Gpu, word: str) -> bool:
    return gpu.index == int(word) if _INDEX.match(word) else word.startswith("GPU-") and gpu.uuid.startswith(word)


def counted(models: Sequence[str]) -> str:
    """Models with their number, for people and for comparing.

    >>> counted(["A100", "H100", "A100"]), counted([])
    ('2 x A100, 1 x H100', 'none')
    """
    return ", ".join(f"{models.count(model)} x {model}" for model in sorted({*models})) or "none"


def gpu_facts(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Models, number and driver; nothing where there is no GPU."""
    if not gpus:
        return {}
    facts = {"gpu": ", ".join(sorted({gpu.model for gpu in gpus})), "gpu.count": str(len(gpus))}
    drivers = sorted({gpu.driver for gpu in gpus if gpu.driver})
    return {**facts, "gpu.driver": ", ".join(drivers)} if drivers else facts


def gromacs_facts(text: str) -> dict[str, str]:
    """From what `gmx --version` prints, or the head of a GROMACS log, which has the same lines.

    >>> gromacs_facts("GROMACS version:    2022.5-Debian_2022.5_2\\nGPU support:        disabled\\n")
    {'gromacs': '2022.5-Debian_2022.5_2', 'gromacs.gpu': 'disabled'}
    """
    said: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        said.setdefault(name.strip(), value.strip())
    return {ours: said[theirs] for ours, theirs in _GROMACS.items() if said.get(theirs)}


_GROMACS = {
    "gromacs": "GROMACS version",
    "gromacs.precision": "Precision",
    "gromacs.simd": "SIMD instructions",
    "gromacs.gpu": "GPU support",
    "gromacs.fft": "CPU FFT library",
    "gromacs.mpi": "MPI library",
}
