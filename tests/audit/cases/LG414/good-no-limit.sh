#!/bin/bash
#SBATCH --time=UNLIMITED
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@3600
srun --kill-on-bad-exit=1 python train.py --resume
