#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
again() { exit 75; }
srun python train.py --resume || again
