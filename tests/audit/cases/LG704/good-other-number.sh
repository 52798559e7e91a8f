#!/bin/bash
#SBATCH --time=01:00:00 # up to 36 hours
srun python train.py --resume
