#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LOG=$(ls -t slurm-*.out | head -1)
srun python train.py --resume --log $LOG
