#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:10@300
srun --kill-on-bad-exit=1 python train.py --resume
