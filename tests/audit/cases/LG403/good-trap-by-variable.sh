#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
SIG=USR1
trap 'touch STOP' $SIG
srun --kill-on-bad-exit=1 python train.py --resume &
wait
wait
