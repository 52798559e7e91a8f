#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
CKPT=$(ls out/step_[0-9][0-9][0-9][0-9][0-9][0-9].pt | tail -1)
srun python train.py --resume $CKPT
