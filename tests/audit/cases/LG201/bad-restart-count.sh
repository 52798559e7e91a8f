#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --ckpt_dir ckpt/attempt-${SLURM_RESTART_COUNT:-0}
