#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
#SBATCH --array=1%1
srun python train.py --resume
