"""What NumPy computes with: its version, its vectors, and the BLAS behind it.

It imports nothing of ours: `lastgood fingerprint -- python` has it run in interpreters that need not have lastgood.
"""

import ctypes
import importlib
from typing import Any

import numpy as np


def facts() -> dict[str, str]:
    """As core.fingerprint_items has them. What this version of NumPy does not tell is left out."""
    found = {"numpy": np.__version__}
    try:
        inner = importlib.import_module("numpy._core._multiarray_umath")
    except ImportError:
        # NumPy 1
        inner = importlib.import_module("numpy.core._multiarray_umath")
    found["numpy.simd"] = _simd(inner)
    found["blas"], found["blas.threads"] = _blas(inner)
    return {name: value for name, value in found.items() if value}


def _simd(inner: Any) -> str:
    """Of the sets of instructions that it has loops for, those that it uses here."""
    usable = getattr(inner, "__cpu_features__", {})
    names = [*getattr(inner, "__cpu_baseline__", []), *getattr(inner, "__cpu_dispatch__", [])]
    return " ".join(name for name in names if usable.get(name))


def _blas(inner: Any) -> tuple[str, str]:
    """Which one, for which CPU, and its threads. An OpenBLAS is asked itself: it picks its code when it is loaded."""
    config = getattr(np.__config__, "CONFIG", {}).get("Build Dependencies", {}).get("blas", {})
    name = " ".join(str(config[key]) for key in ("name", "version") if config.get(key))
    try:
        library = ctypes.CDLL(inner.__file__)
    except OSError:
        return name, ""
    core, threads = _called(library, "corename", ctypes.c_char_p), _called(library, "num_threads", ctypes.c_int)
    words = [name, f"for {core.decode(errors='replace')}" if isinstance(core, bytes) else ""]
    return " ".join(filter(None, words)), "" if threads is None else str(threads)


def _called(library: ctypes.CDLL, what: str, answer: Any) -> Any:
    for prefix in ("scipy_openblas_get_", "openblas_get_"):
        for suffix in ("64_", "_64", ""):
            function = getattr(library, f"{prefix}{what}{suffix}", None)
            if function is not None:
                function.restype = answer
                return function()
    return None
