#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'rm -f lock' EXIT
srun python train.py --resume
