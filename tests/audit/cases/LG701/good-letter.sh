#!/bin/bash
#SBATCH -t 90
srun python train.py --resume
