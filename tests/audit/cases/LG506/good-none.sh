#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
torchrun --standalone --nproc-per-node=8 train.py --resume
