#!/bin/bash
#SBATCH --time=30
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@1800
trap 'touch STOP' USR1
python train.py --resume &
wait
wait
