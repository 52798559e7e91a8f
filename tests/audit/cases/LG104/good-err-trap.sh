#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'exit 1' ERR
srun python train.py --resume
date
