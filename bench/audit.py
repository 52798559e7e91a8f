"""How many batch scripts `lastgood audit` reads in a second, beside shellcheck on the same files.

    python bench/audit.py [--scripts 3000] [--files DIR] [--rounds 3]

The scripts are made from parts that job scripts on clusters are made of, none like another, with a fixed seed; or they
are those in DIR. Both programs run as a user would start them, on all files, with as many processes as there are
cores: lastgood shares them out by itself, shellcheck is given 50 files a process by xargs. They look for different
things: the ratio says what a check costs beside one that people run on every commit. The aim: 3,000 scripts in 30 s on two
cores, and not slower than shellcheck.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import table

SEED = 5
AIM_S = 30.0
_SCRIPT = Path(sys.executable).with_name("lastgood")
LASTGOOD = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "lastgood"]

OPTIONS = (
    "--nodes={n}", "--ntasks-per-node={n}", "--cpus-per-task={n}", "--gres=gpu:{n}", "--mem={n}0G", "--partition=gpu{n}",
    "--account=proj{n}", "--mail-type=END,FAIL", "--exclusive", "--constraint=a100", "--hint=nomultithread",
    "--requeue", "--no-requeue", "--open-mode=append", "--array=0-{n}%1", "--signal=USR1@{n}00", "--signal=B:TERM@60",
    "--dependency=afterok:{n}", "--output=logs/%x-%j.out", "--error=logs/%x-%j.err", "--chdir=/work/proj{n}",
)  # fmt: skip
SETUP = (
    "module purge", "module load cuda/12.{n} gcc/11", "source ~/venv/bin/activate", "set -euo pipefail", "set -e",
    "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK", "export NCCL_DEBUG=INFO", 'eval "$(conda shell.bash hook)"',
    "conda activate env{n}", "ulimit -s unlimited", "mkdir -p logs out", "cd $SLURM_SUBMIT_DIR", "nvidia-smi",
    'echo "job $SLURM_JOB_ID on $(hostname) at $(date)"', "RUN=out/run_$SLURM_JOB_ID", "RUN=out/$(date +%Y%m%d)",
    "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\nexport MASTER_ADDR MASTER_PORT=29{n}00",
)  # fmt: skip
WORK = (
    "srun python train.py --epochs {n}0 --lr 1e-{n} --out $RUN --resume",
    "srun --kill-on-bad-exit=1 python -u train.py --config conf/a{n}.yaml | tee logs/train.log",
    "torchrun --nnodes=$SLURM_NNODES --nproc-per-node=4 --max-restarts={n} \\\n  --rdzv-backend=c10d train.py \\\n  --batch {n}",
    "for seed in 1 2 {n}; do\n  python train.py --seed $seed --out $TMPDIR/run-$seed || true\ndone",
    "mpirun -np $SLURM_NTASKS gmx_mpi mdrun -deffnm md{n} -maxh 23.5 -cpi md{n}.cpt",
    "if [ -f out/last.pt ]; then\n  ARGS=--resume\nelse\n  ARGS=\nfi\nsrun python train.py $ARGS --steps {n}000",
    "trap 'kill -USR1 $child' USR1\nsrun python train.py --n {n} &\nchild=$!\nwait $child\nwait $child",
    "cleanup() {{\n  cp -r $TMPDIR/out out{n}\n}}\ntrap cleanup EXIT\nsrun ./solver case{n}.inp > solver.log 2>&1",
    "apptainer exec --nv -B /scratch image{n}.sif python train.py --ckpt /scratch/$USER/ck",
    "cat > conf{n}.json <<EOF\n{{\"steps\": {n}000, \"job\": \"$SLURM_JOB_ID\"}}\nEOF\nsrun ./model conf{n}.json",
    "while true; do\n  python train.py --n {n} && break\n  sleep 10\ndone",
)  # fmt: skip
AFTER = (
    "python evaluate.py --n {n}", 'echo "finished at $(date)"', "rsync -a out/ /archive/proj{n}/", "sbatch next.sh",
    "rm -rf $TMPDIR/run-{n}", "scontrol requeue $SLURM_JOB_ID", "exit 0",
)  # fmt: skip


def script(chance: random.Random) -> str:
    def some(parts: tuple[str, ...], least: int, most: int) -> list[str]:
        return [part.format(n=chance.randint(1, 9)) for part in chance.sample(parts, chance.randint(least, most))]

    lines = ["#!/bin/bash", f"#SBATCH --job-name=job{chance.randint(1, 999)}", "#SBATCH --time=24:00:00"]
    lines += [f"#SBATCH {option}" for option in some(OPTIONS, 3, 9)]
    for parts, least, most in ((SETUP, 3, 10), (WORK, 1, 4), (AFTER, 0, 3)):
        for part in some(parts, least, most):
            lines += [
                "",
                f"# {chance.choice(('set up', 'run', 'see the wiki', 'as last time', 'step'))}",
            ] * chance.randint(0, 1)
            lines.append(part)
    return "\n".join(lines) + "\n"


def make(directory: Path, count: int) -> list[str]:
    chance = random.Random(SEED)
    for i in range(count):
        place = directory / f"{i // 100:03}" / f"job{i:05}.sh"
        place.parent.mkdir(exist_ok=True)
        place.write_text(script(chance))
    return sorted(str(place) for place in directory.rglob("*.sh"))


class Taken(NamedTuple):
    wall_s: float
    cpu_s: float
    """Of the program and all that it started: much the same on a machine that others use, too."""


def run(command: list[str], files: list[str] | None = None) -> Taken:
    """Until it has answered; any answer is right but that the call was wrong."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    names = "\0".join(files or []).encode()
    done = subprocess.run(command, input=names, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # xargs says 123 where one of its commands found something.
    if done.returncode not in (0, 1, 65, 123):
        raise SystemExit(f"{command[0]} failed ({done.returncode}): {done.stderr.decode()[-500:]}")
    return Taken(wall_s, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=int, default=3000, help="how many are made (default: 3000)")
    parser.add_argument("--files", type=Path, default=None, help="audit the files in this directory instead")
    parser.add_argument("--rounds", type=int, default=3, help="how often each program runs (default: 3)")
    parser.add_argument(
        "--peer-share", type=float, default=1.0, help="shellcheck gets this share of the files (default: all)"
    )
    asked = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as home:
        if asked.files is None:
            directory, files = Path(home), make(Path(home), asked.scripts)
        else:
            directory, files = asked.files, sorted(str(path) for path in asked.files.iterdir() if path.is_file())
        lines = sum(Path(name).read_bytes().count(b"\n") for name in files)
        share = files[:: max(1, round(1 / asked.peer_share))]
        own = [*LASTGOOD, "audit", "--format", "json", str(directory)]
        peer = ["xargs", "-0", "-P", str(cores), "-n", "50", "shellcheck", "-s", "bash", "-f", "json1"]
        has_peer = shutil.which("shellcheck") is not None
        taken: dict[str, list[Taken]] = {"lastgood audit": [], "shellcheck": []}
        for _ in range(asked.rounds):
            taken["lastgood audit"].append(run(own))
            if has_peer:
                times = run(peer, share)
                taken["shellcheck"].append(Taken(*(value * len(files) / len(share) for value in times)))
        single = [run([*LASTGOOD, "audit", files[0]]) for _ in range(5)]
    print(f"{len(files)} scripts, {lines} lines; {cores} cores; {table.about(table.machine(Path.cwd()))}\n")
    rows = []
    for name, times in taken.items():
        if times:
            wall_s, cpu_s = ([getattr(one, kind) for one in times] for kind in ("wall_s", "cpu_s"))
            per_s = len(files) / table.median(wall_s)
            rows.append([name, table.shown(wall_s, 1, " s"), table.shown(cpu_s, 1, " s"), f"{per_s:.0f}"])
    print(table.markdown(["program", "all files", "processor time", "scripts per s"], rows))
    start = [one.cpu_s for one in single]
    print(f"\none script, with the start of Python: {table.shown(start, 2, ' s')} of processor time")
    own_s = table.median([one.wall_s for one in taken["lastgood audit"]])
    verdicts = [
        f"{len(files)} scripts in {own_s:.1f} s (aim: {AIM_S:.0f} s): {'reached' if own_s <= AIM_S else 'missed'}"
    ]
    if has_peer:
        peer_cpu_s, own_cpu_s = (
            table.median([one.cpu_s for one in taken[name]]) for name in ("shellcheck", "lastgood audit")
        )
        ratio = peer_cpu_s / own_cpu_s
        verdicts.append(
            f"shellcheck takes {ratio:.1f} times the processor time (aim: 1): {'reached' if ratio >= 1 else 'missed'}"
        )
    else:
        verdicts.append("shellcheck is not installed here: nothing to compare with")
    print("\n".join(verdicts))


if __name__ == "__main__":
    main()
