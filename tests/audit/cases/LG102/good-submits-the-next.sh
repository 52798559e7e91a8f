#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
sbatch --dependency=afterany:$SLURM_JOB_ID next.sh
srun python train.py --resume
