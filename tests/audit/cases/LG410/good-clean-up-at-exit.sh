#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --ntasks=1 redis-server &
SERVER=$!
trap 'kill -TERM $SERVER' EXIT
srun --kill-on-bad-exit=1 python train.py --resume
