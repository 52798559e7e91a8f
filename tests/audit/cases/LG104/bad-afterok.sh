#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
sbatch --dependency=afterok:$SLURM_JOB_ID plot.sh
srun python train.py --resume
seff $SLURM_JOB_ID
