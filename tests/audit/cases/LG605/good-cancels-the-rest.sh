#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
#SBATCH --array=1-5%1
srun python train.py --resume && scancel $SLURM_ARRAY_JOB_ID
