#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
srun --kill-on-bad-exit=1 torchrun --nnodes=2 --nproc-per-node=8 --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint="$HEAD:29500" train.py --resume
