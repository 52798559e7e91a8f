#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
STEP=$(ls out/checkpoint-* -d | awk -F- '{ if ($2 > m) m = $2 } END { print m }' | tail -1)
srun python train.py --resume out/checkpoint-$STEP
