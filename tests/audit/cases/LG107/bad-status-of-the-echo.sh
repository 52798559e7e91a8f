#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'echo over; exit $?' EXIT
srun python train.py --resume
