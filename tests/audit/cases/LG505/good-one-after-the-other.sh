#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --array=0-9%1
#SBATCH --gres=gpu:1
#SBATCH --output=%A_%a.out
export MASTER_PORT=29500
python train.py --resume
