#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun -n1 ./solve --restart 1 &
srun -n1 ./solve --restart 2 &
wait -n
wait -n
