"""Which program a command runs in the end, and what stands around it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.batch.programs import Launch, launch_of
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.source import Source


def launch(line: str) -> Launch:
    script = BatchScript(Source("job.sh", line.encode()))
    return script.launch(script.commands[0])


@pytest.mark.parametrize(
    ("line", "wrappers", "program"),
    [
        ("python train.py", "", "python"),
        ("/opt/py/bin/python3.11 train.py", "", "python"),
        ("srun python train.py", "srun", "python"),
        ("srun -n4 -N 2 --ntasks-per-node 2 --mpi=pmix -l python train.py", "srun", "python"),
        ("srun --kill-on-bad-exit=1 -K --label --exclusive python train.py", "srun", "python"),
        ("srun -lu -c 4 --gres gpu:1 -- python train.py", "srun", "python"),
        ("srun --container-image=x.sqsh --container-mount-home --container-mounts /a:/a python a.py", "srun", "python"),
        ("/usr/bin/srun --export=ALL,A=1 ./app --mpi x", "srun", "app"),
        ("mpirun -np 4 --bind-to core -x PATH --mca btl tcp,self lmp -in a", "mpirun", "lmp"),
        ("mpiexec.hydra -ppn 4 -genv OMP_NUM_THREADS 2 pw.x -i a", "mpirun", "pw.x"),
        ("aprun -n 32 -N 8 -cc depth ./app", "mpirun", "app"),
        ("jsrun -n 4 -a 1 -g 1 ./app", "mpirun", "app"),
        ("ibrun -o 0 -n 4 ./app", "mpirun", "app"),
        ("srun singularity exec --nv -B /a:/b img.sif python train.py", "srun container", "python"),
        ("singularity exec -e --nv img.sif python train.py", "container", "python"),
        ("apptainer run --bind /a docker://x/y:1 python train.py", "container", "python"),
        ("docker run --rm -it -v /a:/b -e A=1 --gpus all img python train.py", "container", "python"),
        ("shifter --image=x python train.py", "container", "python"),
        ("ch-run -b /a:/b img -- python train.py", "container", "python"),
        ("env A=1 B=2 python train.py", "env", "python"),
        ("env -u A -i python train.py", "env", "python"),
        ("timeout -s USR1 -k 60 3600 python train.py", "timeout", "python"),
        ("timeout --signal=TERM 1h srun python train.py", "timeout srun", "python"),
        ("conda run -n env --no-capture-output python train.py", "conda", "python"),
        ("conda run --name env python train.py", "conda", "python"),
        ("uv run --with x python train.py", "uv", "python"),
        ("torchrun --nproc_per_node=4 --standalone train.py --lr 1", "torchrun", "train.py"),
        ("srun torchrun --nnodes 2 --rdzv-backend c10d -m pkg.train", "srun torchrun", "pkg.train"),
        ("python -m torch.distributed.run --nproc-per-node 4 train.py", "torchrun", "train.py"),
        ("python -u -m torch.distributed.launch --use_env train.py", "torchrun", "train.py"),
        ("accelerate launch --multi_gpu --num_processes 4 train.py", "accelerate", "train.py"),
        ("python -m accelerate.commands.launch train.py", "accelerate", "train.py"),
        ("deepspeed --hostfile h train.py --deepspeed", "deepspeed", "train.py"),
        ("nohup nice -n 5 numactl --cpunodebind=0 python a.py", "nohup nice numactl", "python"),
        ("taskset -c 0-3 python a.py", "taskset", "python"),
        ("time -p srun ./app", "time srun", "app"),
        ("exec srun ./app", "exec srun", "app"),
        ("nsys profile -o out -t cuda python a.py", "nsys", "python"),
        ("strace -f -o x python a.py", "strace", "python"),
        ("sudo -u me python a.py", "sudo", "python"),
        ("xvfb-run -a python a.py", "xvfb-run", "python"),
        ("lastgood run --every 5min -- python a.py", "lastgood", "python"),
        ("lastgood run", "lastgood", ""),
        ("command -v srun", "", "command"),
        ("srun $ARGS python a.py", "srun unknown", "python"),
        ("$LAUNCHER python a.py", "unknown", "python"),
        ("$LAUNCHER ./app", "", ""),
        ("srun", "srun", ""),
        ("singularity", "container", ""),
        ("timeout", "timeout", ""),
    ],
)  # fmt: skip
def test_wrappers_are_taken_off(line: str, wrappers: str, program: str) -> None:
    found = launch(line)
    assert " ".join(wrapper.name for wrapper in found.wrappers) == wrappers
    assert found.program == program


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("python train.py --x a.py", "train.py"),
        ("python -u -W ignore src/train.py", "src/train.py"),
        ("srun torchrun --standalone $ROOT/train.py", "${ROOT}/train.py"),
        ("python -m pkg.train a.py", ""),
        ("python -c 'x' a.py", ""),
        ("python - a.py", ""),
        ("./train.py", "./train.py"),
        ("lmp -in a", ""),
    ],
)
def test_the_python_file_is_found(line: str, path: str) -> None:
    assert launch(line).python_script == path


def test_options_of_a_wrapper_are_read_in_each_spelling() -> None:
    srun = launch("srun -n4 -N 2 --mpi=pmix --ntasks-per-node 2 -K1 --label python a.py").wrapper("srun")
    assert srun is not None
    assert (srun.option("-n", "--ntasks"), srun.option("-N", "--nodes"), srun.option("--mpi")) == ("4", "2", "pmix")
    assert srun.option("-K", "--kill-on-bad-exit") == "1" and srun.option("--ntasks-per-node") == "2"
    assert srun.option("--label") == "" and srun.option("--wait") is None


def test_the_programs_own_options_are_not_the_wrappers() -> None:
    found = launch("srun -n 2 python train.py -n 8 --resume=x")
    assert found.has_argument("--resume") and found.has_argument("-n") and not found.has_argument("--mpi")
    argument = found.argument("-n")
    assert argument is not None and argument.text == "8"


@given(
    st.lists(
        st.sampled_from(
            "srun mpirun env timeout singularity exec torchrun python conda run -m -c -n -- - -x --mpi=a a.py $X A=1 4 | "
            "taskset lastgood nsys profile docker ch-run".split()
        ),
        max_size=20,
    )
)
def test_any_line_of_wrappers_comes_to_something(words: list[str]) -> None:
    script = BatchScript(Source("job.sh", " ".join(words).encode()))
    for command in script.commands:
        found = launch_of(command.words)
        assert sum(len(wrapper.words) for wrapper in found.wrappers) + len(found.words) == len(command.words)
        assert isinstance(found.program + found.python_script, str)


def test_a_program_without_arguments_has_no_argument() -> None:
    assert launch_of([]).argument("--resume") is None
