#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
OUT=$(mktemp -d /scratch/$USER/XXXX)
srun apptainer exec --nv image.sif python train.py --checkpoint-path $OUT
