#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
if [ "$1" = a ]; then
    accelerate launch train.py --resume --lr 2e-5
else
    accelerate launch train.py --resume --lr 1e-6
fi
