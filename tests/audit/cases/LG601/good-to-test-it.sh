#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume
BEST=$(ls out/epoch_*.pth | sort | tail -1)
srun python evaluate.py --checkpoint $BEST
