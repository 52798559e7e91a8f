#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(ls result/*/checkpoint-epoch3.pth | sort | tail -1)
srun python train.py --resume $CKPT
