#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ -z "$1" ]; then
  srun python train.py --resume
else
  srun python train.py --resume --config "$1"
fi
