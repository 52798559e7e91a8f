#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'kill -USR1 "$pid"; wait "$pid"' TERM
srun --kill-on-bad-exit=1 python train.py --resume &
pid=$!
wait "$pid"
wait "$pid"
