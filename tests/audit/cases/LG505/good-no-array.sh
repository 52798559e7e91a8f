#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --gres=gpu:1
export MASTER_PORT=29500
python train.py --resume
