#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if srun python train.py --resume; then date; else exit 1; fi
