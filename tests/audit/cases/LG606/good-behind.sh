#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --save-dir ckpt --resume
rm -rf ckpt
