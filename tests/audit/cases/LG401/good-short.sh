#!/bin/bash
#SBATCH --time=00:10:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'touch STOP' USR1
python train.py &
wait
