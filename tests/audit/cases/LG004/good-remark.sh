#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
# lastgood: nice program
srun python train.py --resume
