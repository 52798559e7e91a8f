#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=1-5
#SBATCH --output=log.out
./a $SLURM_ARRAY_TASK_ID > log-$SLURM_ARRAY_TASK_ID.txt 2>&1
