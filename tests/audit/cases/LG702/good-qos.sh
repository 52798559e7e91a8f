#!/bin/bash
#SBATCH --qos=long
#SBATCH -t 3-0
srun python train.py --resume
