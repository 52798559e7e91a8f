#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
JOB=$SLURM_JOB_ID
for i in 1 2 3; do
  JOB=$(sbatch --parsable --dependency=afterok:$JOB segment.sh)
done
