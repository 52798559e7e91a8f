#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
trap 'kill -USR1 "$pid"' USR1
python prepare.py
python train.py --resume &
pid=$!
while kill -0 "$pid" 2>/dev/null; do
    sleep 5
done
