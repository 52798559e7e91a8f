#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@300
srun --kill-on-bad-exit=1 torchrun --standalone --nproc-per-node=4 train.py --resume
