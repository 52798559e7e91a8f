#!/bin/bash
#SBATCH --workdir /work/a
#SBATCH --requeue
srun python train.py --resume
