#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
[ "${SLURM_RESTART_COUNT:-0}" -lt 5 ] || exit 3
srun python train.py --resume || exit 75
