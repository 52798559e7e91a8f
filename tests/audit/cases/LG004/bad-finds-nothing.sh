#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
# lastgood: ignore LG101 because the site requeues every job
srun python train.py --resume
