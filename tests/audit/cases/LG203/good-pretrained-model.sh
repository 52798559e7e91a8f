#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cp model.pt /tmp/
srun python evaluate.py --checkpoint-path /tmp/model.pt --init-checkpoint /tmp/model.pt
