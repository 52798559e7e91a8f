#!/bin/bash
#SBATCH --time=24:00:00
srun torchrun --nproc_per_node=8 --max-restarts=3 train.py --resume
