#!/bin/bash
#SBATCH --time=24:00:00
if [ -z "$SLURM_JOB_ID" ]; then
  mkdir -p logs
  sbatch "$0"
  exit
fi
srun python train.py --save-dir ckpt/$SLURM_JOB_ID --resume
