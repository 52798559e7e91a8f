#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
#SBATCH --nodes=1
trap 'pkill -USR1 -f train.py; wait' USR1
srun --kill-on-bad-exit=1 python train.py --resume &
wait
