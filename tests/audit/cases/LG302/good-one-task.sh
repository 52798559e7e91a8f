#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=7
#SBATCH --output=log.out
srun ./a $SLURM_ARRAY_TASK_ID
