#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
timeout 23h srun --kill-on-bad-exit=1 python train.py --resume
