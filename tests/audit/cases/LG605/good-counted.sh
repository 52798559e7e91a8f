#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
srun python train.py --resume
[ $1 -gt 0 ] && sbatch $0 $(($1 - 1))
