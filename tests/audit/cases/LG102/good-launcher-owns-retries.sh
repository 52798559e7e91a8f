#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
lastgood run --job runs/x -- srun python train.py
