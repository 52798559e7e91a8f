#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
echo "start ${SLURM_RESTART_COUNT:-0}"
srun python train.py
