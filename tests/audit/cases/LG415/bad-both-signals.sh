#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
again() {
    kill -USR1 "$pid"
    wait "$pid"
    sbatch "$0"
}
trap again USR1 TERM
python train.py --resume &
pid=$!
wait "$pid"
