#!/bin/bash
#SBATCH --array=0-9
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%A_%a.out
ID=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
python train.py --resume || scontrol requeue "$ID"
