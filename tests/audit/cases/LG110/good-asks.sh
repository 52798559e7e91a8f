#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
again() {
  if [ "$?" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
}
trap again EXIT
srun python train.py --resume
