#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH -o ~/logs/%j.out
srun python train.py --resume
