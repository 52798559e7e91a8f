#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'kill -USR1 "$pid"; exit 0' USR1
python train.py --resume &
pid=$!
wait "$pid"
