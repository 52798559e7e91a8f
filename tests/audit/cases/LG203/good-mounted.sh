#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun singularity exec -B /project/ckpt:/tmp/ckpt image.sif python train.py --checkpoint-dir /tmp/ckpt --resume
