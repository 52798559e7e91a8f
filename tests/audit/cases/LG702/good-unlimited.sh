#!/bin/bash
#SBATCH -p open
#SBATCH -t 30-0
srun python train.py --resume
