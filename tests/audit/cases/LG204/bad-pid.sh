#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
DIR=/scratch/$USER/$$
mkdir -p $DIR
cd $DIR || exit 1
srun lmp -in in.melt
