#!/bin/bash
#SBATCH --qos=normal
#SBATCH -t 3-0
srun python train.py --resume
