#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun relion_refine_mpi --o run --i p.star $ARGS
