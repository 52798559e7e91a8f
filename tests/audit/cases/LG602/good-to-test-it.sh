#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --resume auto
BEST=$(ls -t out/best_*.pth | head -1)
srun python test.py cfg.py $BEST
