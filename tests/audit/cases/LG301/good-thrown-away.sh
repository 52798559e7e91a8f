#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --output=/dev/null
srun python train.py --resume
