#!/bin/bash
#SBATCH -p short,long
#SBATCH -t 8-0
srun python train.py
