#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --signal=B:USR1@300
#SBATCH -o log.txt
trap "scontrol requeue $SLURM_JOB_ID" USR1
srun python train.py --resume &
wait
