#!/bin/bash
#SBATCH -p gpu
srun python train.py --resume
