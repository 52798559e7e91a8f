#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=1,3,7
#SBATCH --output=log/%a.out
#SBATCH --error=log/all.err
srun ./a $SLURM_ARRAY_TASK_ID
