#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LATEST_CHECKPOINT=$(ls -d checkpoints/JOB-* | tail -n 1)
srun python train.py --resume $LATEST_CHECKPOINT
