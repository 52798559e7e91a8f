#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --output=log-%j-%r.txt
srun python train.py --resume
