#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(find out -name "*.pt" -printf "%T@ %p\n" | sort -n | tail -1 | cut -d" " -f2)
srun python train.py --resume $CKPT
