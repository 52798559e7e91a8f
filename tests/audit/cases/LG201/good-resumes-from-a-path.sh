#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --output_dir runs/$(date +%s) --resume-from /project/runs/best/last.ckpt
