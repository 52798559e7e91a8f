#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --array=1-9
#SBATCH --output=task_$SLURM_ARRAY_TASK_ID.out
srun python train.py --resume
