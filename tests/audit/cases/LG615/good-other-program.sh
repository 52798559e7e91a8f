#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
mpirun relion_run_motioncorr_mpi --i movies.star --o MotionCorr/
