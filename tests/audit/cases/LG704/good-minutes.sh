#!/bin/bash
#SBATCH --time=48:00 # 48 minutes
srun python train.py --resume
