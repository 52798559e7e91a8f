#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
while true; do
  srun python train.py --resume && break
  sleep 10
done
