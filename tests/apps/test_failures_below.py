"""What fails below an application is not taken for an error of its own, whatever it calls it."""

from pathlib import Path
from typing import Any

import pytest

from lastgood.apps.known import adapter_for
from lastgood.core.outcome import Ending, Evidence, Outcome
from lastgood.launch.adapted import AdaptedCommand

GROMACS = """
-------------------------------------------------------
Program:     gmx mdrun, version 2022.5
Source file: src/gromacs/gpu_utils/device_stream.cu (line 101)

Fatal error:
{}

For more information and tips for troubleshooting, please check the GROMACS
"""
LAMMPS = "ERROR on proc 0: {} (src/KOKKOS/kokkos.cpp:99)\nLast command: run 1000\n"
RELION = "in: /src/acc/cuda/cuda_mem_utils.h, line 48\nERROR: \n{}\n=== Backtrace  ===\n"
COMMANDS = {
    "gromacs": (["gmx", "mdrun"], GROMACS),
    "lammps": (["lmp", "-in", "in.melt"], LAMMPS),
    "relion": (["relion_refine", "--o", "run", "--i", "particles.star"], RELION),
}


def judged(name: str, words: str, behind: str = "") -> Ending:
    nothing: Any = None
    command, form = COMMANDS[name]
    adapted = AdaptedCommand(adapter_for(name, command), nothing, nothing, {}, 60.0, None, 30.0)
    ending = adapted.judge(Evidence(exit_code=1, log_tail=form.format(words) + behind))
    assert ending is not None
    return ending


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("CUDA error #214 (cudaErrorECCUncorrectable): uncorrectable ECC error encountered.", Outcome.HARDWARE_ERROR),
        ("CUDA out of memory", Outcome.OUT_OF_MEMORY),
        ("MPI_ERR_PROC_FAILED: Process Failure", Outcome.COMMUNICATION),
        ("Unknown option", Outcome.PROGRAM_ERROR),
    ],
)
def test_an_error_of_what_is_below_is_told_from_one_of_the_application(name: str, words: str, outcome: Outcome) -> None:
    ending = judged(name, words)
    assert ending.outcome is outcome and words in ending.reason


@pytest.mark.parametrize("name", COMMANDS)
def test_a_node_that_fails_is_told_from_what_the_application_says_of_it(name: str) -> None:
    ending = judged(name, "ranks are gone", "srun: error: Node failure on n3\n")
    assert ending.outcome is Outcome.NODE_FAILURE and "Node failure on n3" in ending.reason


@pytest.mark.parametrize("name", COMMANDS)
def test_connections_that_an_error_of_the_application_ends_do_not_hide_it(name: str) -> None:
    assert judged(name, "Unknown option", "rank 1: Connection reset by peer\n").outcome is Outcome.PROGRAM_ERROR
