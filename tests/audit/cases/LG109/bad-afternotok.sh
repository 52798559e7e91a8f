#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
sbatch --dependency=afternotok:$SLURM_JOB_ID $0
srun python train.py --resume
