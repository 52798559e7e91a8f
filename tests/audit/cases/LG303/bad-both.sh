#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume &> train-$SLURM_JOB_ID.log
