#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
./server --port 6379 &
sleep 5
srun python train.py --resume
kill %1
wait
