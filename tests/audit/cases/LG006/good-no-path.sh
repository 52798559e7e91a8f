#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=/data/a~b/%j.out
#SBATCH --mail-user=$USER@example.org
srun python train.py --resume
