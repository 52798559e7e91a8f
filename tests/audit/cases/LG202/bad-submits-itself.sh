#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
[ -f done ] && exit
sbatch --dependency=afterany:$SLURM_JOB_ID $0
srun python train.py --output_dir out/$SLURM_JOB_ID --resume
