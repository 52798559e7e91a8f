#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
for CKPT in $(ls -t out/*.pt); do python check.py $CKPT && break; done
srun python train.py --resume $CKPT
