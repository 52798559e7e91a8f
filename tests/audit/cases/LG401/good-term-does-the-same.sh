#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
again() {
    touch STOP
    wait
}
trap again USR1
trap again TERM
python train.py --resume &
wait
