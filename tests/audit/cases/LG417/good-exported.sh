#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@600
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=300
srun --kill-on-bad-exit=1 torchrun --standalone --nproc-per-node=8 train.py --resume
