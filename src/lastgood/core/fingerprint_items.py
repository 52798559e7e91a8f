"""What of an environment can change a job's numbers: each item that is collected, what it can do, and why. Pure."""

from enum import StrEnum

import msgspec


class Effect(StrEnum):
    """What another value of an item does to numbers that were computed with the same program and the same input."""

    CHANGES = "changes numbers"
    MAY_CHANGE = "may change numbers"
    NONE = "does not"


class Item(msgspec.Struct, frozen=True):
    """One thing that is collected."""

    effect: Effect
    why: str
    """What another value does to numbers, or why it does nothing."""


_CHANGES, _MAY, _NONE = Effect.CHANGES, Effect.MAY_CHANGE, Effect.NONE

MACHINE: dict[str, Item] = {
    "machine": Item(_CHANGES, "another instruction set rounds, fuses and vectorises in another way"),
    "cpu": Item(_MAY, "math libraries pick their code by the CPU's model"),
    "cpu.simd": Item(_CHANGES, "wider vectors add up in another order, and BLAS picks its code by them"),
    "cpu.count": Item(_MAY, "the number of threads that nobody has set follows from it, and so does how sums are cut"),
    "libc": Item(_MAY, "exp, log, sin and others come from it, and their last bit differs between versions"),
    "gpu": Item(_CHANGES, "another model runs other kernels, and sums in another order"),
    "gpu.count": Item(_MAY, "work that is spread over all GPUs is cut in another way"),
    "gpu.driver": Item(_MAY, "it compiles kernels that the libraries bring as PTX, and libraries pick theirs by it"),
    "host": Item(_NONE, "its name alone changes nothing"),
    "kernel": Item(_NONE, "the operating system's kernel computes nothing for the job"),
}
"""Facts of the machine that the process runs on."""

PROCESS: dict[str, Item] = {
    "python": Item(_MAY, "its own functions for numbers and random choices may differ between versions"),
    "lastgood": Item(_NONE, "it saves and restores the same bits in each version"),
    "ranks": Item(_CHANGES, "sums over ranks are made in another order, and each rank has another share of the data"),
}
"""Facts of the process and of those that work with it."""

NUMPY: dict[str, Item] = {
    "numpy": Item(_MAY, "its kernels and the streams of its random distributions may differ between versions"),
    "numpy.simd": Item(_CHANGES, "its loops are compiled for several instruction sets, and sums differ between them"),
    "blas": Item(_CHANGES, "another BLAS, or the same for another CPU, sums the products of matrices in another order"),
    "blas.threads": Item(_MAY, "products of matrices are cut among threads, and so are their sums"),
}

TORCH: dict[str, Item] = {
    "torch": Item(_MAY, "its kernels, and the order in which they sum, may differ between versions"),
    "torch.cpu": Item(_CHANGES, "its kernels are compiled for several instruction sets, and sums differ between them"),
    "torch.threads": Item(_CHANGES, "sums and products of matrices on the CPU are cut among the threads"),
    "torch.blas": Item(_CHANGES, "another library multiplies the matrices, in another order"),
    "torch.mkldnn": Item(_CHANGES, "oneDNN and torch's own kernels for convolutions and products round differently"),
    "torch.dtype": Item(_CHANGES, "new tensors have another precision"),
    "torch.deterministic": Item(_MAY, "where it is off, kernels may be picked whose sums differ from run to run"),
    "torch.matmul.precision": Item(_CHANGES, "below highest, float32 products are computed in TF32 or bfloat16"),
    "torch.matmul.tf32": Item(
        _CHANGES, "products of float32 matrices are computed with 10 bits of mantissa, or with 23"
    ),
    "torch.matmul.reduced": Item(
        _CHANGES, "sums in products of half-precision matrices are kept in half precision, or not"
    ),
    "cuda": Item(_MAY, "its libraries' kernels may differ between versions"),
    "cudnn": Item(_MAY, "convolutions, recurrent layers and attention may take another algorithm"),
    "cudnn.enabled": Item(_CHANGES, "convolutions are computed by cuDNN, or by torch's own kernels"),
    "cudnn.benchmark": Item(
        _MAY, "where it is on, algorithms are picked by a race at each start, which another may win"
    ),
    "cudnn.deterministic": Item(_MAY, "where it is off, algorithms may be picked whose sums differ from run to run"),
    "cudnn.tf32": Item(_CHANGES, "convolutions of float32 are computed with 10 bits of mantissa, or with 23"),
    "torch.attention": Item(_MAY, "attention may be computed by another kernel, which sums in another order"),
    "nccl": Item(_MAY, "sums over GPUs may take another algorithm, ring or tree"),
    "hip": Item(_MAY, "ROCm's libraries' kernels may differ between versions"),
    "torch.gpu": Item(_CHANGES, "another model runs other kernels, and sums in another order"),
}
"""Collected where torch is imported."""

GROMACS: dict[str, Item] = {
    "gromacs": Item(_MAY, "its kernels may differ between versions"),
    "gromacs.precision": Item(_CHANGES, "mixed and double precision round differently"),
    "gromacs.simd": Item(_CHANGES, "its kernels are compiled for one instruction set, and sum in its order"),
    "gromacs.gpu": Item(_CHANGES, "GPU kernels sum in another order than those of the CPU"),
    "gromacs.fft": Item(_CHANGES, "another library computes the Fourier transforms of PME"),
    "gromacs.mpi": Item(_MAY, "how domains are cut among ranks follows from it"),
    "gromacs.reprod": Item(
        _MAY, "without -reprod, load balancing by measured times changes the order of sums from run to run"
    ),
}
"""Collected where the command is GROMACS's."""

VARIABLES: dict[str, Item] = {
    "PYTHONHASHSEED": Item(
        _MAY, "the order of sets of texts follows from it, in each start another one where it is not set"
    ),
    "OMP_NUM_THREADS": Item(_CHANGES, "sums of OpenMP, and of most BLAS libraries, are cut among the threads"),
    "OMP_DYNAMIC": Item(_MAY, "where it is true, the number of threads changes with the load of the machine"),
    "OMP_SCHEDULE": Item(_MAY, "dynamic and guided loops hand out their parts in the order in which threads come"),
    "MKL_NUM_THREADS": Item(_CHANGES, "sums of MKL are cut among the threads"),
    "MKL_DYNAMIC": Item(_MAY, "where it is not false, MKL takes fewer threads when it likes to"),
    "MKL_CBWR": Item(_CHANGES, "it has MKL sum in the same order on each CPU, or on each run"),
    "MKL_ENABLE_INSTRUCTIONS": Item(_CHANGES, "MKL takes code for narrower vectors"),
    "MKL_THREADING_LAYER": Item(_MAY, "MKL cuts its sums with another threading library"),
    "OPENBLAS_NUM_THREADS": Item(_CHANGES, "sums of OpenBLAS are cut among the threads"),
    "OPENBLAS_CORETYPE": Item(_CHANGES, "OpenBLAS takes code for another CPU"),
    "BLIS_NUM_THREADS": Item(_CHANGES, "sums of BLIS are cut among the threads"),
    "NUMEXPR_NUM_THREADS": Item(_MAY, "expressions are cut among the threads"),
    "NUMBA_NUM_THREADS": Item(_MAY, "parallel loops are cut among the threads"),
    "NPY_DISABLE_CPU_FEATURES": Item(_CHANGES, "NumPy takes code for narrower vectors"),
    "ATEN_CPU_CAPABILITY": Item(_CHANGES, "torch takes code for narrower vectors"),
    "DNNL_MAX_CPU_ISA": Item(_CHANGES, "oneDNN takes code for narrower vectors"),
    "ONEDNN_DEFAULT_FPMATH_MODE": Item(_CHANGES, "oneDNN computes float32 in bfloat16 or TF32"),
    "CUBLAS_WORKSPACE_CONFIG": Item(
        _MAY, "where it is not set, products on several CUDA streams may differ from run to run"
    ),
    "CUBLASLT_WORKSPACE_SIZE": Item(_MAY, "cuBLASLt may pick another algorithm"),
    "NVIDIA_TF32_OVERRIDE": Item(_CHANGES, "0 forbids TF32 to all of NVIDIA's libraries, whatever the program says"),
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": Item(_CHANGES, "1 has torch use TF32 for products of float32 matrices"),
    "TORCH_BLAS_PREFER_CUBLASLT": Item(_MAY, "products on GPUs are computed by cuBLASLt"),
    "TORCH_CUDNN_V8_API_DISABLED": Item(_MAY, "convolutions may take another algorithm"),
    "CUDA_VISIBLE_DEVICES": Item(_MAY, "other GPUs are used, or more or fewer of them"),
    "HIP_VISIBLE_DEVICES": Item(_MAY, "other GPUs are used, or more or fewer of them"),
    "ROCR_VISIBLE_DEVICES": Item(_MAY, "other GPUs are used, or more or fewer of them"),
    "CUDA_DEVICE_ORDER": Item(_MAY, "the numbers of GPUs mean others"),
    "CUDA_LAUNCH_BLOCKING": Item(_NONE, "kernels wait for each other; a race in the program may be hidden by it"),
    "NCCL_ALGO": Item(_CHANGES, "sums over GPUs take another algorithm, ring or tree"),
    "NCCL_PROTO": Item(_MAY, "sums over GPUs are cut in other pieces"),
    "NCCL_NVLS_ENABLE": Item(_CHANGES, "sums over GPUs are made in the switch, or not"),
    "NCCL_MIN_NCHANNELS": Item(_MAY, "sums over GPUs are cut in other pieces"),
    "NCCL_MAX_NCHANNELS": Item(_MAY, "sums over GPUs are cut in other pieces"),
    "NCCL_NTHREADS": Item(_MAY, "sums over GPUs are cut in other pieces"),
    "NCCL_COLLNET_ENABLE": Item(_CHANGES, "sums over GPUs are made in the network, or not"),
    "XLA_FLAGS": Item(_MAY, "XLA compiles in another way; --xla_gpu_deterministic_ops is one of its flags"),
    "TF_DETERMINISTIC_OPS": Item(
        _MAY, "where it is not set, TensorFlow may pick kernels whose sums differ from run to run"
    ),
    "TF_ENABLE_ONEDNN_OPTS": Item(_CHANGES, "oneDNN and TensorFlow's own kernels round differently"),
    "JAX_ENABLE_X64": Item(_CHANGES, "arrays of JAX have another precision"),
    "JAX_DEFAULT_MATMUL_PRECISION": Item(_CHANGES, "products of matrices are computed with another precision"),
    "GMX_GPU_DD_COMMS": Item(_MAY, "GROMACS sends forces between GPUs in another way"),
    "GMX_NBNXN_EWALD_TABLE": Item(_CHANGES, "GROMACS computes Ewald forces from a table, or analytically"),
    "OMPI_MCA_coll": Item(_MAY, "sums over ranks take another algorithm"),
    "OMPI_MCA_coll_tuned_allreduce_algorithm": Item(_CHANGES, "sums over ranks take another algorithm"),
    "I_MPI_ADJUST_ALLREDUCE": Item(_CHANGES, "sums over ranks take another algorithm"),
    "I_MPI_CBWR": Item(_CHANGES, "it has Intel MPI sum in the same order whatever the placement of ranks"),
    "MPICH_ALLREDUCE_NO_SMP": Item(_CHANGES, "sums over ranks of a node are made in another order"),
}
"""Variables of the environment, kept where they are set."""

LIBRARIES: tuple[str, ...] = (
    "accelerate",
    "apex",
    "cupy",
    "datasets",
    "deepspeed",
    "flash_attn",
    "jax",
    "jaxlib",
    "lightning",
    "mpi4py",
    "numba",
    "pytorch_lightning",
    "scipy",
    "sklearn",
    "tensorflow",
    "tokenizers",
    "torchdata",
    "torchvision",
    "transformers",
    "triton",
)
"""Packages whose version is kept where the program has imported them."""

_LIBRARY = Item(_MAY, "its computations, or the order of its random choices, may differ between versions")
_UNKNOWN = Item(_MAY, "what it does to numbers is not known here")
_ALL: dict[str, Item] = {**MACHINE, **PROCESS, **NUMPY, **TORCH, **GROMACS, **VARIABLES}


def item(name: str) -> Item:
    """What is known of an item; of one that nobody knows, that it may change numbers.

    >>> item("host").effect, item("scipy").effect
    (<Effect.NONE: 'does not'>, <Effect.MAY_CHANGE: 'may change numbers'>)
    """
    return _ALL.get(name) or (_LIBRARY if name in LIBRARIES else _UNKNOWN)


def groups() -> list[tuple[str, list[str]]]:
    """The names of all items in the order in which people look for them, under headings."""
    return [
        ("machine", [*MACHINE]),
        ("process", [*PROCESS]),
        ("numpy", [*NUMPY]),
        ("torch", [*TORCH]),
        ("GROMACS", [*GROMACS]),
        ("libraries", [*LIBRARIES]),
        ("environment", [*VARIABLES]),
    ]
