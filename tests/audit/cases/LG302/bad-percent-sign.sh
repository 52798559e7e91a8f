#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=1-5
#SBATCH --output=log/100%%a.out
srun ./a $SLURM_ARRAY_TASK_ID
