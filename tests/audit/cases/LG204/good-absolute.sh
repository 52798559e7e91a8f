#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cd $(mktemp -d /scratch/XXXX)
srun python train.py --checkpoint-dir /project/ckpt --resume
