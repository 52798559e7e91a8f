#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
while true; do nvidia-smi; sleep 60; done &
srun python train.py --resume
