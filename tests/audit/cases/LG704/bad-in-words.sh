#!/bin/bash
#SBATCH --time=00:02:00 # two hours at most
srun python train.py --resume
