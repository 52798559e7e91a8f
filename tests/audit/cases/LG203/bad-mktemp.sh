#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
W=$(mktemp -d)
srun python train.py --save-dir $W/ckpt
