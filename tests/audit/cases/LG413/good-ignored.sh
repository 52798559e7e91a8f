#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
trap '' USR1
srun --kill-on-bad-exit=1 python train.py --resume
