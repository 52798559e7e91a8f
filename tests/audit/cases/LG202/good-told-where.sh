#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
[ -f done ] && exit
PREVIOUS=$1
sbatch --dependency=afterany:$SLURM_JOB_ID $0 $SLURM_JOB_ID
srun python train.py --output_dir out/$SLURM_JOB_ID --resume-from out/$PREVIOUS
