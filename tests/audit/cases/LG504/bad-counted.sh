#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --ntasks=8
export MASTER_ADDR=$(hostname)
srun --kill-on-bad-exit=1 bash -c 'for i in 1 2 3; do python train.py --resume && break; done'
