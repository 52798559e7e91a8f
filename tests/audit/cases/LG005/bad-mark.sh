#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
srun python train.py --resume
