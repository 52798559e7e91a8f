#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --save-dir runs/$(date -r config.yaml +%F) --resume
