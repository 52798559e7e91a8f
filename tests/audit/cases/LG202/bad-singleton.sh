#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --dependency=singleton
#SBATCH --no-requeue
DIR=/project/${SLURM_JOB_ID}
srun python pretrain.py --save $DIR --load $DIR
