#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
srun -K1 torchrun --nnodes=4 --nproc-per-node=8 train.py --resume
