#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=`find out -name "*.ckpt" | tail -n 1`
srun python train.py --resume $CKPT
