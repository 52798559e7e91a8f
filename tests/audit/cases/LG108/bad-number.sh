#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun -n1 --exact ./solve --restart 1 &
srun -n1 --exact ./solve --restart 2 &
wait %1
wait %2
