#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
#SBATCH --array=1-5%1
if [ -f done ]; then
  exit 0
fi
srun python train.py --resume
