#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ "${SLURM_RESTART_COUNT:-0}" -ge 5 ]; then
  echo "too often"
  exit 100
fi
srun python train.py --resume
