#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
srun python train.py --resume
sbatch $0
