#!/bin/bash
#SBATCH --time=24:00:00
CKPT=$(ls -t out/*.ckpt | head -1)
srun python train.py --resume $CKPT
