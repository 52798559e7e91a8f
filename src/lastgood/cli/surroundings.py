"""Where a command would run, for the launcher and for `lastgood fingerprint`: joins what reads files with what asks tools."""

from collections.abc import Mapping, Sequence

from lastgood.core.machine_facts import Gpu, visible
from lastgood.launch.nvidia import GpusNotToldError, ask_nvidia_smi
from lastgood.runtime.machine import driver_gpus, machine_facts


def find_gpus(environment: Mapping[str, str]) -> list[Gpu]:
    """The GPUs of this node, from nvidia-smi, or the driver's files where there is none. Raises GpusNotToldError."""
    asked = ask_nvidia_smi(environment)
    return driver_gpus() if asked is None else asked


def models_of_gpus(environment: Mapping[str, str]) -> list[str]:
    """Of those that a program may use here. Raises GpusNotToldError."""
    return [gpu.model for gpu in visible(find_gpus(environment), environment)]


def facts_of_command(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """What is known of the surroundings of a command that writes no fingerprint itself. Costs no more than reading files,
    and asking GROMACS, which answers in a tenth of a second."""
    from lastgood.apps.gromacs_build import facts_of
    from lastgood.core.fingerprint import EDITION, NEWEST_EDITION

    return {EDITION: NEWEST_EDITION, **machine_facts(environment), **facts_of(command, environment)}


def facts_of_machine(environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Of this machine, and what could not be told of it; empty if nothing."""
    try:
        return machine_facts(environment, find_gpus(environment)), ""
    except GpusNotToldError as error:
        return machine_facts(environment), str(error)
