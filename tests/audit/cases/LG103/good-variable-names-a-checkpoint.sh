#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export CKPT_DIR=$SCRATCH/run7
srun python train.py
