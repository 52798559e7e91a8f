#!/bin/sh
#SBATCH --time=24:00:00
srun python train.py --resume | tee -a log
