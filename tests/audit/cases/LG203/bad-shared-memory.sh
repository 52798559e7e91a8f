#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun python train.py --ckpt-dir /dev/shm/ckpt --resume
