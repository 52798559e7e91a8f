#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
while ! srun python train.py --resume; do sleep 60; done
