#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
NOW=$(date +%s)
ARGS=(
  --lr 1e-4
  --save-dir "runs/$NOW"   # new each time
  --resume
)
srun torchrun --nproc_per_node 8 train.py "${ARGS[@]}"
