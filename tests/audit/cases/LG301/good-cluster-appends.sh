#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
srun python train.py --resume
