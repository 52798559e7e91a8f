#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
echo "usage: sbatch $0 FILE"
srun python train.py --resume
