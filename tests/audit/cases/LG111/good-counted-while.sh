#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
n=0
while true; do
  srun python train.py --resume && break
  n=$((n+1))
  [ $n -ge 3 ] && exit 1
done
