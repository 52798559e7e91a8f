#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
until [ -f ready ]; do sleep 5; done
srun python train.py --resume
