#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
for i in 1 2 3 4; do
  srun -n1 --exact ./solve --restart $i &
done
wait
