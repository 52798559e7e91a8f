#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
mkdir -p runs/$(date +%s)
RUN=/project/runs/$(date +%s)
cd $RUN
srun python train.py --checkpoint-dir ckpt --resume
