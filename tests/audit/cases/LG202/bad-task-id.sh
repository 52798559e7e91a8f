#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --array=0-9%1
#SBATCH --no-requeue
srun python train.py --checkpoint-dir ckpt/$SLURM_ARRAY_TASK_ID --resume
