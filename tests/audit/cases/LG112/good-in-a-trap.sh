#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
pid=$!
trap 'kill -USR1 $pid; wait $pid; exit 75' USR1
wait $pid
