#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
if [ -f done ]; then
  exit 0
fi
srun python train.py --resume
sbatch $0
