#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@600
trap 'kill -USR1 "$pid"' USR1
python train.py --resume &
pid=$!
code=0
while kill -0 "$pid" 2>/dev/null; do wait "$pid" && code=0 || code=$?; done
exit "$code"
