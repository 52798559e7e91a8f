"""What /proc, nvidia-smi and gmx say is read from recorded texts. No GPU was here: its texts are as NVIDIA documents them."""

import pytest

from lastgood.core.machine_facts import (
    Gpu,
    counted,
    cpu_facts,
    gpu_facts,
    gromacs_facts,
    parse_driver_files,
    parse_nvidia_smi,
    visible,
)

X86 = """\
processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 7763 64-Core Processor
flags\t\t: fpu vme sse sse2 ht pni ssse3 fma sse4_1 sse4_2 f16c avx avx2 erms

processor\t: 1
model name\t: another
flags\t\t: fpu avx512f
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 2000.00
Features\t: fp asimd evtstrm aes fphp asimdhp asimddp sve bf16 i8mm
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd4f
"""
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 2300MHz\n"

SMI = """\
0, GPU-5c89bb21-1f52-7d8e-0b43-8f0d1a2c3d4e, NVIDIA A100-SXM4-80GB, 550.54.15
1, GPU-9a11e0f2-5bd2-0c4a-9f1c-000000000001, NVIDIA A100-SXM4-80GB, 550.54.15
"""
INFORMATION = """\
Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 142
GPU UUID: \t GPU-2f7a2f1e-0000-1111-2222-333344445555
Video BIOS: \t 96.00.74.00.01
Bus Type: \t PCIe
Bus Location: \t 0000:1b:00.0
Device Minor: \t 0
GPU Firmware: \t 535.129.03
GPU Excluded:\t No
"""
VERSION = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
OPEN_VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16-I3)  \n"
)
GMX = """\
GROMACS version:    2022.5-Debian_2022.5_2
Precision:          mixed
Memory model:       64 bit
MPI library:        thread_mpi
OpenMP support:     enabled (GMX_OPENMP_MAX_THREADS = 128)
GPU support:        disabled
SIMD instructions:  SSE4.1
CPU FFT library:    fftw-3.3.10-sse2-avx
GPU FFT library:    none
"""


def test_the_first_processor_counts():
    assert cpu_facts(X86) == {"cpu": "AMD EPYC 7763 64-Core Processor", "cpu.simd": "sse4_2 avx avx2 fma f16c"}


def test_arm_has_numbers_for_a_model():
    assert cpu_facts(ARM) == {
        "cpu": "ARM implementer 0x41 part 0xd4f variant 0x0",
        "cpu.simd": "asimd asimddp fphp bf16 i8mm sve",
    }


def test_power_names_its_model_in_another_line():
    assert cpu_facts(POWER) == {"cpu": "POWER9, altivec supported"}


def test_a_cut_off_or_missing_text_is_no_error():
    assert cpu_facts("") == {}
    assert cpu_facts(X86[:40]) == {}


def test_what_nvidia_smi_prints():
    gpus = parse_nvidia_smi(SMI)
    assert [gpu.model for gpu in gpus] == ["NVIDIA A100-SXM4-80GB"] * 2
    assert gpu_facts(gpus) == {"gpu": "NVIDIA A100-SXM4-80GB", "gpu.count": "2", "gpu.driver": "550.54.15"}


@pytest.mark.parametrize(
    "said", ["No devices were found\n", "0, GPU-1\n", "NVIDIA-SMI has failed because it couldn't communicate\n"]
)
def test_what_nvidia_smi_prints_in_place_of_an_answer_is_none(said):
    with pytest.raises(ValueError):
        parse_nvidia_smi(said)


@pytest.mark.parametrize(("version", "driver"), [(VERSION, "535.129.03"), (OPEN_VERSION, "570.86.15"), ("", "")])
def test_what_the_driver_says_in_files(version, driver):
    (gpu,) = parse_driver_files([INFORMATION], version)
    assert gpu == Gpu(0, "GPU-2f7a2f1e-0000-1111-2222-333344445555", "NVIDIA H100 80GB HBM3", driver)


GPUS = [Gpu(0, "GPU-aa", "A"), Gpu(1, "GPU-bb", "B"), Gpu(2, "GPU-bc", "B")]


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-bb", [1]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        # It cannot be told which, so that none is left out.
        ("7", [0, 1, 2]),
        ("MIG-4f", [0, 1, 2]),
    ],
)
def test_only_gpus_that_the_program_may_use_count(given, seen):
    environment = {} if given is None else {"CUDA_VISIBLE_DEVICES": given}
    assert [gpu.index for gpu in visible(GPUS, environment)] == seen


def test_models_are_counted():
    assert counted(["B", "A", "B"]) == "1 x A, 2 x B"
    assert gpu_facts([]) == {}


def test_what_gmx_says_of_its_build():
    assert gromacs_facts(GMX) == {
        "gromacs": "2022.5-Debian_2022.5_2",
        "gromacs.precision": "mixed",
        "gromacs.simd": "SSE4.1",
        "gromacs.gpu": "disabled",
        "gromacs.fft": "fftw-3.3.10-sse2-avx",
        "gromacs.mpi": "thread_mpi",
    }
    assert gromacs_facts("sh: gmx: not found") == {}
