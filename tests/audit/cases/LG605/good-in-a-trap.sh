#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
#SBATCH --signal=B:USR1@300
trap 'sbatch "$0"' USR1
srun python train.py --resume &
wait
