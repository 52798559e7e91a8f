#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
python train.py --resume > >(tee -a train.log) 2>&1 &
pid=$!
trap 'kill -USR1 "$pid"; wait "$pid"' USR1
wait "$pid"
