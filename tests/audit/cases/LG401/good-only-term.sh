#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'kill -USR1 "$pid"; wait "$pid"' TERM
python train.py &
pid=$!
wait "$pid"
