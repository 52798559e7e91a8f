#!/bin/bash
#SBATCH -t 24 # 24 hours
srun python train.py --resume
