#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
LAUNCH="srun --kill-on-bad-exit=1"
$LAUNCH python train.py --resume
