#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
timeout 23h srun python train.py --resume
if [ $? -eq 124 ]; then sbatch $0; fi
