#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --nodes=2
export MASTER_ADDR=$(hostname)
srun -n 16 -l python train.py --resume
