#!/bin/bash
​
#SBATCH --time=03:00:00
#SBATCH --requeue
srun python train.py --resume
