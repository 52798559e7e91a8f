#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --ntasks=8
mpirun -n 1 ./server &
trap 'kill $!' EXIT
mpirun -n 7 ./solver --restart latest
