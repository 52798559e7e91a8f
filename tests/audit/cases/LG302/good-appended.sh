#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=1-5
#SBATCH --output=all.out --open-mode=append
srun ./a $SLURM_ARRAY_TASK_ID 2>&1 | sed "s/^/$SLURM_ARRAY_TASK_ID: /"
