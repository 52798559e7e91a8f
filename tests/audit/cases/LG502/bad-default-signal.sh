#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
#SBATCH --ntasks=8
trap 'kill %1; wait' USR1
mpiexec -n 8 ./solver --restart latest &
wait
