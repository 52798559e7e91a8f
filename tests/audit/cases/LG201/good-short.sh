#!/bin/bash
#SBATCH --time=10:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --save-dir runs/$(date +%s)
