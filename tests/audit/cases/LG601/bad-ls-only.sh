#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(ls -1 out/checkpoint-* -d | tail -1)
srun python train.py --resume $CKPT
