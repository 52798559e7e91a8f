#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
srun python train.py --resume
[ -f done ] || sbatch --dependency=afterok:$SLURM_JOB_ID $0
