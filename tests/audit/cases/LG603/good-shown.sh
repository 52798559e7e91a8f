#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(ls -v /project/ckpt/*.pt | tail -1)
srun python train.py ${CKPT:+--resume $CKPT}
