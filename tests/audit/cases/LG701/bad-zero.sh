#!/bin/bash
#SBATCH --time=0
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume
