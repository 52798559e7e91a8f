#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --array=0-9
#SBATCH --gres=gpu:a100:8
#SBATCH --output=%A_%a.out
export MASTER_PORT=29500
python train.py --resume --run $SLURM_ARRAY_TASK_ID
