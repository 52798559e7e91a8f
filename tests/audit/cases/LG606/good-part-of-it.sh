#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
rm -rf ckpt/tmp
srun python train.py --save-dir ckpt --resume
