#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun torchrun --nproc_per_node=8 --max-restarts=0 train.py --resume
