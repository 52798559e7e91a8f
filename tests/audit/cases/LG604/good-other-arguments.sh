#!/bin/bash
#SBATCH --time=24:00:00
JOB=$SLURM_JOB_ID
for year in 2001 2002; do
  JOB=$(sbatch --parsable --dependency=afterok:$JOB model.sh $year)
done
