#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --ntasks=8
export MASTER_ADDR=$(hostname)
for i in 1 2 3; do
    srun --kill-on-bad-exit=1 python train.py --resume && break
done
