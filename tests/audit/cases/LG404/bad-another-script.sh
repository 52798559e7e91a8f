#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@90
trap 'scontrol requeue "$SLURM_JOB_ID"; exit 2' SIGUSR1
srun --label bash train.sh "$1"
