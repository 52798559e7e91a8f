#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
srun torchrun --nnodes=2 --nproc-per-node=8 all_reduce_bench.py
