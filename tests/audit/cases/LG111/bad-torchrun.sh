#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=4
srun torchrun --nnodes=4 --nproc_per_node=8 --max_restarts=3 train.py --resume
