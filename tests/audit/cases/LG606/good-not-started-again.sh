#!/bin/bash
#SBATCH --time=24:00:00
rm -rf ckpt
srun python train.py --save-dir ckpt --resume
