#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --checkpoint-dir ckpt/big --resume --log-dir logs/$(date +%F)
