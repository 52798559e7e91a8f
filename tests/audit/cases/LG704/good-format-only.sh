#!/bin/bash
#SBATCH --time=00:48:00 # hours:minutes:seconds
srun python train.py --resume
