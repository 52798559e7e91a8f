#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(ls out/epoch=*.ckpt | sort -Vr | head -n1)
srun python train.py --resume $CKPT
