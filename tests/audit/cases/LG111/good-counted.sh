#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
for attempt in 1 2 3; do
  srun python train.py --resume && break
done
