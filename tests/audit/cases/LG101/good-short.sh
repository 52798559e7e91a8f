#!/bin/bash
#SBATCH --time=10
srun python train.py --resume
