"""Asking nvidia-smi which GPUs this node has. It asks the driver, and makes no CUDA context."""

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from lastgood.core.machine_facts import NVIDIA_SMI, Gpu, parse_nvidia_smi

_LIMIT_S = 60.0
"""Without the persistence daemon the driver wakes each GPU first, which takes seconds; a broken one may never answer."""
_AFTER_KILL_S = 2.0
_NO_GPU = "No devices were found"


class GpusNotToldError(Exception):
    """There is an nvidia-smi, and it does not say which GPUs there are."""


def ask_nvidia_smi(environment: Mapping[str, str], limit_s: float = _LIMIT_S) -> list[Gpu] | None:
    """All GPUs that it shows; None if it is not installed. Raises GpusNotToldError with its words."""
    program = shutil.which(NVIDIA_SMI[0], path=environment.get("PATH"))
    if program is None:
        return None
    try:
        process = subprocess.Popen(
            [program, *NVIDIA_SMI[1:]],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise GpusNotToldError(f"{program} cannot be run: {error.strerror}") from error
    try:
        said = process.communicate(timeout=limit_s)[0].decode(errors="replace")
    except subprocess.TimeoutExpired as error:
        process.kill()
        # Not for long: a process that hangs in the driver does not die of SIGKILL either.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_AFTER_KILL_S)
        raise GpusNotToldError(f"nvidia-smi does not answer within {limit_s:g} s") from error
    finally:
        if process.stdout is not None:
            process.stdout.close()
    if _NO_GPU in said:
        return []
    try:
        gpus = parse_nvidia_smi(said)
    except ValueError as error:
        raise GpusNotToldError(f"nvidia-smi says: {error}") from error
    if process.returncode:
        raise GpusNotToldError(f"nvidia-smi ended with {process.returncode} after its answer")
    return gpus
