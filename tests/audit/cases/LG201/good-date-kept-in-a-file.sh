#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
if [ -f run.name ]; then RUN=$(cat run.name); else RUN=$(date +%s); echo $RUN > run.name; fi
srun python train.py --output_dir runs/$RUN --resume auto
