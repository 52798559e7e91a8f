#!/bin/bash
# Usage:
#   sbatch -N 2 train.sh
#sbatch --export=A=1 train.sh
#SBATCH --requeue
##SBATCH --exclusive
# SBATCH --time=1:00
#PBS -l walltime=1
#YBATCH -r a100_4
# BATCH -n
srun python train.py --resume
