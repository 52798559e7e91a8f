#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
#SBATCH --array=1,2,3%1
module load x
srun python train.py --resume
