#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
stopped=0
trap 'stopped=1' USR1
for part in $(seq 100); do
    [ "$stopped" = 1 ] && break
    python solve.py --part "$part" --resume
done
