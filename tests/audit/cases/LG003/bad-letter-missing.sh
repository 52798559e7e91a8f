#!/bin/bash -l
#BATCH --open-mode=append
#SBATCH --requeue
srun python train.py --resume
