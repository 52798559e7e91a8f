#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume
if [ $? -ne 0 ]; then
  exit 75
fi
