#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(ls -d out/checkpoint-* | sort -t- -k2 -n | tail -1)
srun python train.py --resume $CKPT
