#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
while read -r name; do
  srun python train.py --resume --data $name
done < names.txt
