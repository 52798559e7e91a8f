#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume || { [ "${SLURM_RESTART_COUNT:-0}" -lt 5 ] && scontrol requeue $SLURM_JOB_ID; }
