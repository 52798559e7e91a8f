#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
python monitor.py &
monitor=$!
trap 'kill "$monitor"' EXIT
srun --kill-on-bad-exit=1 python train.py --resume
