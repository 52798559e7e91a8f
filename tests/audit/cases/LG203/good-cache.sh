#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export HF_HOME=/tmp/hf
srun python train.py --cache_dir /tmp/cache --output_dir /project/out --resume
