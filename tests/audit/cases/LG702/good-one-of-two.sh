#!/bin/bash
#SBATCH -p short,long
#SBATCH -t 2-0
srun python train.py --resume
