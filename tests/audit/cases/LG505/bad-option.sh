#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --array=0-9
#SBATCH --gres=gpu:1
#SBATCH --output=%A_%a.out
torchrun --nproc-per-node=1 --master-port=29501 train.py --resume --run $SLURM_ARRAY_TASK_ID
