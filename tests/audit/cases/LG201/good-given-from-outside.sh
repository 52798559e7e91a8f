#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
RUN=${RUN:-$(date +%s)}
srun python train.py --output_dir runs/$RUN --resume auto
