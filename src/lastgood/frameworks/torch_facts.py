"""What torch was built with and is set to, as far as it changes numbers. Makes no CUDA context.

It imports nothing of ours: `lastgood fingerprint -- python` has it run in interpreters that need not have lastgood.
"""

import re
from collections.abc import Callable

import torch

_ONEDNN = re.compile(r"MKL-DNN v([\d.]+)")
_MKL = re.compile(r"Math Kernel Library Version (\S+)")
_BLAS = re.compile(r"BLAS_INFO=(\w+)")
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")


def facts() -> dict[str, str]:
    """As core.fingerprint_items has them. What this version of torch does not tell is left out."""
    found = {name: _asked(question) for name, question in {**_ALWAYS, **_accelerator()}.items()}
    return {name: value for name, value in found.items() if value}


def _asked(question: Callable[[], object]) -> str:
    try:
        answer = question()
    except (AttributeError, RuntimeError, ImportError):
        # Another version of torch; or settings of which it says itself that they contradict each other.
        return ""
    return "" if answer is None else str(answer)


def _capability() -> str:
    return str(torch.backends.cpu.get_cpu_capability())


def _blas() -> str:
    text = torch.__config__.show()
    mkl, kind, onednn = _MKL.search(text), _BLAS.search(text), _ONEDNN.search(text)
    names = [f"MKL {mkl[1]}" if mkl else kind[1] if kind else "", f"oneDNN {onednn[1]}" if onednn else ""]
    return ", ".join(filter(None, names))


def _deterministic() -> str:
    if not torch.are_deterministic_algorithms_enabled():
        return "off"
    return "warn only" if torch.is_deterministic_algorithms_warn_only_enabled() else "on"


def _reduced() -> str:
    matmul = torch.backends.cuda.matmul
    kinds = {
        "fp16": matmul.allow_fp16_reduced_precision_reduction,
        "bf16": matmul.allow_bf16_reduced_precision_reduction,
    }
    return ", ".join(name for name, allowed in kinds.items() if allowed) or "none"


def _attention() -> str:
    return ", ".join(name for name in _ATTENTION if getattr(torch.backends.cuda, f"{name}_sdp_enabled")()) or "none"


def _version(number: object) -> str:
    return ".".join(map(str, number)) if isinstance(number, tuple) else str(number)


def _devices() -> str:
    """Only where the program has made a context already: asking would make one."""
    if not torch.cuda.is_initialized():
        return ""
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return ", ".join(f"{names.count(name)} x {name}" for name in sorted({*names}))


_ALWAYS: dict[str, Callable[[], object]] = {
    "torch": lambda: torch.__version__,
    "torch.cpu": _capability,
    "torch.threads": torch.get_num_threads,
    "torch.blas": _blas,
    "torch.mkldnn": lambda: "on" if torch.backends.mkldnn.enabled else "off",
    "torch.dtype": lambda: str(torch.get_default_dtype()).removeprefix("torch."),
    "torch.deterministic": _deterministic,
    "torch.matmul.precision": torch.get_float32_matmul_precision,
}


def _accelerator() -> dict[str, Callable[[], object]]:
    """Nothing where torch was built for CPUs only: its switches would say nothing."""
    if torch.version.cuda is None and torch.version.hip is None:
        return {}
    return {
        "cuda": lambda: torch.version.cuda,
        "hip": lambda: torch.version.hip,
        "cudnn": torch.backends.cudnn.version,
        "nccl": lambda: _version(torch.cuda.nccl.version()),
        "torch.matmul.tf32": lambda: "on" if torch.backends.cuda.matmul.allow_tf32 else "off",
        "torch.matmul.reduced": _reduced,
        "cudnn.enabled": lambda: "on" if torch.backends.cudnn.enabled else "off",
        "cudnn.benchmark": lambda: "on" if torch.backends.cudnn.benchmark else "off",
        "cudnn.deterministic": lambda: "on" if torch.backends.cudnn.deterministic else "off",
        "cudnn.tf32": lambda: "on" if torch.backends.cudnn.allow_tf32 else "off",
        "torch.attention": _attention,
        "torch.gpu": _devices,
    }
