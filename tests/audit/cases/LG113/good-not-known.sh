#!/bin/bash
#SBATCH --time=24:00:00
srun python train.py --resume || scontrol requeue $SLURM_JOB_ID
