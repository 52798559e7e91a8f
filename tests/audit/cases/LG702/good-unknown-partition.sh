#!/bin/bash
#SBATCH -p other
#SBATCH -t 30-0
srun python train.py --resume
