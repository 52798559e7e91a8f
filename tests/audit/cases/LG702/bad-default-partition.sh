#!/bin/bash
#SBATCH -t 5:00:00
srun python train.py
