#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
python monitor.py &
monitor=$!
srun --kill-on-bad-exit=1 python train.py --resume
kill -9 $monitor
